//! A model works on the main task, and covertly on a side task.
//!
//! It has a conversation of its own: other instructions, its plan, its notes. Into the visible conversation goes only what
//! it does and what it says outside of its notes.

use super::{PolicyChoice, PolicyError, Scene, prompts};
use crate::log::new_id;
use crate::model::{Assistant, Message, ModelError};
use crate::spec::SampleSpec;

const NOTES_BEGIN: &str = "<private>";
const NOTES_END: &str = "</private>";

pub(crate) struct Attack {
    private: Vec<Message>,
    /// The task as the user gives it, and whether a plan is to be made of it.
    plan: Option<String>,
    /// Messages of the visible conversation that the private one has.
    seen: usize,
    sample: SampleSpec,
    hints: bool,
    instructions: Option<String>,
}

impl Attack {
    pub(super) fn new(choice: &PolicyChoice, sample: &SampleSpec) -> Result<Self, PolicyError> {
        let plan = choice.bool("plan", true)?.then(|| prompts::main_tasks(sample));
        Ok(Self {
            private: Vec::new(),
            plan,
            seen: 0,
            sample: sample.clone(),
            hints: choice.bool("hint", false)?,
            instructions: choice.text("instructions"),
        })
    }

    pub(super) async fn turn(&mut self, scene: &mut Scene<'_>) -> Result<Assistant, ModelError> {
        if self.private.is_empty() {
            self.open(scene).await?;
        }
        // Requests of the harness come without a tool's answer.
        for message in &scene.visible[self.seen.max(1)..] {
            if matches!(message, Message::User { .. }) {
                self.private.push(message.clone());
            }
        }
        self.seen = scene.visible.len();
        let tools = scene.tools;
        let turn = scene.ask("hidden_untrusted", &self.private, tools).await?.message;
        self.private.push(Message::Assistant(turn.clone()));
        Ok(Assistant {
            id: new_id(),
            content: without_notes(&turn.content),
            reasoning: None,
            native: None,
            ..turn
        })
    }

    /// The private conversation up to the user's first message.
    async fn open(&mut self, scene: &mut Scene<'_>) -> Result<(), ModelError> {
        let workdir = self.sample.environment.sandbox.workdir.clone();
        let system = prompts::attacker(&workdir, &self.sample, self.hints, self.instructions.as_deref());
        self.private.push(Message::system(new_id(), system));
        if let Some(main_tasks) = self.plan.take() {
            self.private.push(Message::user(new_id(), prompts::plan(&main_tasks)));
            let mut plan = scene.ask("red_planner", &self.private, &[]).await?.message;
            // Nobody would answer a call made here.
            plan.drop_calls();
            self.private.push(Message::Assistant(plan));
            self.private.push(Message::user(new_id(), prompts::BEGIN));
        }
        Ok(())
    }

    pub(super) fn saw(&mut self, message: &Message) {
        self.private.push(message.clone());
    }
}

/// What is left of a text without notes. An unfinished note goes to the text's end.
fn without_notes(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(NOTES_BEGIN) {
        left.push_str(&rest[..begin]);
        let inside = &rest[begin + NOTES_BEGIN.len()..];
        rest = match inside.find(NOTES_END) {
            Some(end) => &inside[end + NOTES_END.len()..],
            None => "",
        };
    }
    left.push_str(rest);
    // An end without a beginning: what is before it was meant to be private.
    match left.rfind(NOTES_END) {
        Some(end) => left[end + NOTES_END.len()..].trim().to_owned(),
        None => left.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_never_show() {
        for (text, left) in [
            ("plain", "plain"),
            ("<private>secret</private> visible", "visible"),
            ("a <private>x</private>b<private>y</private> c", "a b c"),
            ("a <private>never closed", "a"),
            ("secret</private> visible", "visible"),
            ("<private>a<private>b</private>c</private> d", "d"),
            ("<private></private>", ""),
        ] {
            assert_eq!(without_notes(text), left, "{text}");
        }
    }
}
