//! Puts events and steps together, once both are known.
//!
//! The conversation gives the order. A model call belongs to the step with its message, a tool call to the step with its
//! call. What happens between them belongs to the step before as long as a tool's answer is missing, or until a new span or
//! model call begins; from then on to the step that follows.

use std::collections::HashMap;

use super::index::{Call, Index, NONE, Speaker, Step, StepKind, Trait, limits};

/// A step made from an event, to stand behind a step of the conversation.
struct Inserted {
    /// How many steps of the conversation are before it.
    before: usize,
    step: Step,
}

pub(super) fn arrange(index: &mut Index, call_ids: &mut HashMap<u64, u32>, event_calls: &[(u64, u32)]) {
    let base = index.steps.len();
    let mut by_id: HashMap<u64, u32> = HashMap::new();
    for (number, step) in index.steps.iter().enumerate() {
        if step.id != 0 && step.speaker == Speaker::Model {
            by_id.entry(step.id).or_insert(number as u32);
        }
    }
    let openers = index.steps.iter().take_while(|step| step.speaker != Speaker::Model).count();
    let mut inserted: Vec<Inserted> = Vec::new();
    // Steps are told by their number, inserted ones by `base` and their number.
    let mut current: Option<u32> = None;
    let mut outstanding = 0;
    let mut reached = openers;
    let mut pending: Vec<u32> = Vec::new();
    let mut waiting = true;
    for number in 0..index.events.len() {
        let event = index.events[number];
        let matched = match event.trait_ {
            Trait::Model | Trait::Draft | Trait::Aside => {
                let made = &event_calls[event.first_call as usize..(event.first_call + event.calls) as usize];
                let by_call = || {
                    made.iter()
                        .find_map(|(id, _)| call_ids.get(id))
                        .map(|call| index.calls[*call as usize].step)
                };
                let in_turn = || {
                    // Before messages had ids, model calls follow each other like the messages they gave.
                    if event.id != 0 || event.trait_ != Trait::Model {
                        return None;
                    }
                    let from = reached.max(openers).min(base);
                    let next = index.steps[from..].iter().position(|step| step.speaker == Speaker::Model)?;
                    let step = &index.steps[from + next];
                    (step.id == 0 && step.event == NONE).then_some((from + next) as u32)
                };
                by_id.get(&event.id).filter(|_| event.id != 0).copied().or_else(by_call).or_else(in_turn)
            }
            Trait::Tool => {
                call_ids.get(&event.id).filter(|_| event.id != 0).map(|call| index.calls[*call as usize].step)
            }
            _ => None,
        };
        let number = number as u32;
        if let Some(step) = matched {
            let first = current.is_none();
            flush(index, &mut pending, step, first, openers);
            index.events[number as usize].step = step;
            if (step as usize) < base {
                reached = reached.max(step as usize + 1);
            }
            let of_step = if (step as usize) < base {
                &mut index.steps[step as usize]
            } else {
                &mut inserted[step as usize - base].step
            };
            if event.trait_ == Trait::Tool {
                if let Some(call) = call_ids.get(&event.id) {
                    let call = &mut index.calls[*call as usize];
                    if call.event == NONE {
                        call.event = number;
                        outstanding = if current == Some(step) { outstanding - 1 } else { 0 };
                    }
                }
            } else {
                let better = of_step.event == NONE
                    || (event.trait_ == Trait::Model
                        && index.events[of_step.event as usize].trait_ != Trait::Model);
                if better {
                    of_step.event = number;
                }
                if current != Some(step) {
                    outstanding = i64::from(of_step.calls);
                }
            }
            current = Some(step);
            waiting = false;
            continue;
        }
        let makes_step = event.trait_ == Trait::Model;
        if makes_step && base + inserted.len() < limits::STEPS_MAX {
            let step = (base + inserted.len()) as u32;
            let first_call = index.calls.len() as u32;
            let made = &event_calls[event.first_call as usize..(event.first_call + event.calls) as usize];
            let room = limits::CALLS_MAX.saturating_sub(index.calls.len());
            for ((id, function), place) in made.iter().zip(0..).take(room) {
                if *id != 0 {
                    call_ids.insert(*id, index.calls.len() as u32);
                }
                index.calls.push(Call::made(step, place, *id, *function, None));
            }
            let calls = index.calls.len() as u32 - first_call;
            inserted.push(Inserted {
                before: reached,
                step: Step {
                    kind: StepKind::Model,
                    place: event.place,
                    speaker: Speaker::Model,
                    first_call,
                    calls,
                    id: event.id,
                    event: number,
                    first_event: 0,
                    events: 0,
                },
            });
            let first = current.is_none();
            flush(index, &mut pending, step, first, openers);
            index.events[number as usize].step = step;
            if event.id != 0 {
                by_id.insert(event.id, step);
            }
            current = Some(step);
            outstanding = i64::from(calls);
            waiting = false;
            continue;
        }
        let begins = matches!(event.trait_, Trait::SpanBegin | Trait::Aside | Trait::Draft);
        if outstanding <= 0 && begins {
            waiting = true;
        }
        match current {
            Some(step) if !waiting => index.events[number as usize].step = step,
            _ => pending.push(number),
        }
    }
    let rest = pending;
    if let Some(first) = rest.first()
        && let Some(event) = index.events.get(*first as usize).copied()
    {
        // What is left happened behind the last step; without any step, it is all there is.
        let step = (base + inserted.len()) as u32;
        inserted.push(Inserted {
            before: base,
            step: Step {
                kind: StepKind::Events,
                place: event.place,
                speaker: Speaker::Model,
                first_call: 0,
                calls: 0,
                id: 0,
                event: NONE,
                first_event: 0,
                events: 0,
            },
        });
        for number in rest {
            index.events[number as usize].step = step;
        }
    }
    merge(index, inserted);
    group(index);
}

/// Gives events that waited to the step that came. Before the first model call they belong to the first message.
fn flush(index: &mut Index, pending: &mut Vec<u32>, step: u32, first: bool, openers: usize) {
    let aside = |number: &u32| matches!(index.events[*number as usize].trait_, Trait::Draft | Trait::Aside);
    let split =
        if first && openers > 0 { pending.iter().position(aside).unwrap_or(pending.len()) } else { 0 };
    for (place, number) in pending.drain(..).enumerate() {
        index.events[number as usize].step = if place < split { 0 } else { step };
    }
}

/// Puts the inserted steps between the others and renumbers.
fn merge(index: &mut Index, inserted: Vec<Inserted>) {
    if inserted.is_empty() {
        return;
    }
    let base = index.steps.len();
    let mut numbers = vec![0; base + inserted.len()];
    let mut steps = Vec::with_capacity(base + inserted.len());
    let mut waiting = inserted.iter().enumerate().peekable();
    for (number, step) in index.steps.iter().enumerate() {
        while let Some((place, next)) = waiting.next_if(|(_, next)| next.before <= number) {
            numbers[base + place] = steps.len() as u32;
            steps.push(next.step);
        }
        numbers[number] = steps.len() as u32;
        steps.push(*step);
    }
    for (place, next) in waiting {
        numbers[base + place] = steps.len() as u32;
        steps.push(next.step);
    }
    for call in &mut index.calls {
        call.step = numbers[call.step as usize];
    }
    for event in &mut index.events {
        event.step = numbers.get(event.step as usize).copied().unwrap_or(0);
    }
    index.steps = steps;
}

/// Lists the events of each step, in their order.
fn group(index: &mut Index) {
    for event in &index.events {
        if let Some(step) = index.steps.get_mut(event.step as usize) {
            step.events += 1;
        }
    }
    let mut first = 0;
    for step in &mut index.steps {
        step.first_event = first;
        first += step.events;
        step.events = 0;
    }
    let mut sorted = vec![0; first as usize];
    for (number, event) in index.events.iter().enumerate() {
        if let Some(step) = index.steps.get_mut(event.step as usize) {
            sorted[(step.first_event + step.events) as usize] = number as u32;
            step.events += 1;
        }
    }
    index.events_of_steps = sorted;
}
