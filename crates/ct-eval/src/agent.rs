//! The loop: the policy decides, tools run, until the agent is done or a limit is reached.

use ct_environment::{Sandbox, SandboxError};

use crate::log::{Ended, Recorder, ToolRun};
use crate::model::{Message, Model, ModelError, StopReason, ToolCall, ToolError, ToolErrorKind};
use crate::policy::{self, Policy, PolicyChoice, Scene};
use crate::spec::Limits;
use crate::tool;

/// An agent at work on one sample.
pub(crate) struct Agent<'a> {
    pub(crate) choice: &'a PolicyChoice,
    pub(crate) policy: Policy,
    pub(crate) model: Option<&'a Model>,
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) limits: Limits,
    pub(crate) conversation: &'a str,
    /// Told after each turn.
    pub(crate) report: &'a (dyn Fn(&Recorder, u64) + Sync),
}

/// What has been done so far. It outlives the loop, whatever ends that.
pub(crate) struct Work {
    pub(crate) messages: Vec<Message>,
    pub(crate) actions: u64,
    pub(crate) submission: Option<String>,
}

/// Why an agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl Agent<'_> {
    /// Works until the end, within the limits but for time, which the caller watches.
    pub(crate) async fn work(
        mut self,
        work: &mut Work,
        recorder: &mut Recorder,
    ) -> Result<Ended, AgentError> {
        let tools = tool::specs(self.sandbox.workdir());
        let mut idle_turns = 0;
        let mut step = 0;
        loop {
            if let Some(ended) = self.limit_reached(work, recorder) {
                return Ok(ended);
            }
            step += 1;
            recorder.begin_span("ct_step", &format!("step {step}"));
            let mut scene = Scene {
                visible: &work.messages,
                tools: &tools,
                recorder,
                model: self.model,
                conversation: self.conversation,
            };
            let turn = match self.policy.turn(&mut scene).await {
                Ok(Some(turn)) => turn,
                Ok(None) => {
                    recorder.end_span();
                    return Ok(Ended::Done);
                }
                Err(error) if error.is_too_long() => {
                    let tokens = recorder.tokens();
                    return Ok(reached(recorder, "context", tokens as f64, "the model's context".to_owned()));
                }
                Err(error) => return Err(error.into()),
            };
            scene.seat(self.choice.name(), &turn);
            let calls = turn.tool_calls.clone();
            let answer = turn.content.clone();
            work.messages.push(Message::Assistant(turn));
            for call in &calls {
                let submitted = self.call(call, work, recorder).await?;
                (self.report)(recorder, work.actions);
                if submitted {
                    recorder.end_span();
                    return Ok(Ended::Done);
                }
            }
            recorder.end_span();
            if !calls.is_empty() {
                idle_turns = 0;
                continue;
            }
            (self.report)(recorder, work.actions);
            idle_turns += 1;
            if idle_turns > policy::nudges(self.choice) {
                // It will not call a tool any more; what it said last is its answer.
                work.submission = Some(answer);
                return Ok(Ended::Done);
            }
            work.messages.push(Message::user(crate::log::new_id(), policy::NUDGE));
        }
    }

    /// Runs one call. True: the agent says that it is done.
    async fn call(
        &mut self,
        call: &ToolCall,
        work: &mut Work,
        recorder: &mut Recorder,
    ) -> Result<bool, AgentError> {
        let began = recorder.moment();
        let id = crate::log::new_id();
        let result = tool::run(call, self.sandbox, recorder).await;
        let answer = match &result {
            Ok(answer) => answer.clone(),
            Err(error) => tool::Answer {
                error: Some(ToolError { kind: ToolErrorKind::Unknown, message: error.to_string() }),
                ..tool::Answer::default()
            },
        };
        recorder.tool(&ToolRun {
            call,
            result: &answer.content,
            error: answer.error.as_ref(),
            message_id: &id,
            began,
        });
        work.actions += 1;
        let message = Message::Tool {
            id,
            call_id: call.id.clone(),
            function: call.function.clone(),
            content: answer.content,
            error: answer.error,
        };
        self.policy.saw(&message);
        work.messages.push(message);
        result?;
        let done = answer.submitted.is_some();
        if done {
            work.submission = answer.submitted;
        }
        Ok(done)
    }

    fn limit_reached(&self, work: &Work, recorder: &mut Recorder) -> Option<Ended> {
        let (kind, limit, what) = self.limit_of(work, recorder)?;
        let ended = reached(recorder, kind, limit, what);
        Some(ended)
    }

    fn limit_of(&self, work: &Work, recorder: &Recorder) -> Option<(&'static str, f64, String)> {
        let limits = &self.limits;
        let messages = limits.messages.filter(|max| work.messages.len() as u64 >= *max);
        if let Some(max) = messages {
            return Some(("message", max as f64, format!("{max} messages")));
        }
        if let Some(max) = limits.tokens.filter(|max| recorder.tokens() >= *max) {
            return Some(("token", max as f64, format!("{max} tokens")));
        }
        let cost = limits.cost_usd.filter(|max| recorder.cost_usd().is_some_and(|cost| cost >= *max));
        cost.map(|max| ("cost", max, format!("{max} US dollars")))
    }
}

/// Records that a limit ended the sample.
pub(crate) fn reached(recorder: &mut Recorder, kind: &'static str, limit: f64, what: String) -> Ended {
    recorder.sample_limit(kind, &format!("the limit of {what} was reached"), limit);
    Ended::Limit { kind, limit }
}

/// The last turn, as the sample's output.
pub(crate) fn output(messages: &[Message]) -> Option<serde_json::Value> {
    let last = messages.iter().rev().find_map(|message| match message {
        Message::Assistant(turn) => Some(turn),
        _ => None,
    })?;
    let stop = if last.tool_calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls };
    Some(crate::log::output_json(&last.model, last, stop, None, None))
}
