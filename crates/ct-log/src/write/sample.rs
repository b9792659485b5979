//! What changes in a sample when a log is written again.
//!
//! A first pass over the sample finds the places, a second one copies around them: two times inflating, but nothing is
//! held and nothing is printed anew.

use std::collections::HashSet;
use std::io::{self, Read};

use memchr::memmem::Finder;

use super::Glob;
use super::edit::{Cutter, Edit, With, quoted};
use super::glob::any_matches;
use crate::json::{JsonError, Kind, Reader};

/// Characters of a name or an id that is compared.
const NAME_CHARS_MAX: usize = 4_096;
/// Timelines nested deeper than this are left as they are.
const TIMELINE_DEPTH_MAX: usize = 100;

/// What to change.
pub(super) struct Changes<'a> {
    /// Scorers to leave out.
    pub(super) drop: &'a [Glob],
    /// The name for the single score of an old sample, which Inspect looks up only in JSON logs.
    pub(super) single_score: Option<&'a str>,
}

impl Changes<'_> {
    pub(super) fn drops(&self, name: &str) -> bool {
        any_matches(self.drop, name)
    }
}

/// A member of the sample.
struct Place {
    start: u64,
    value: u64,
    end: u64,
    array: bool,
}

/// Finds the changes in a sample.
pub(super) fn plan(sample: &mut dyn Read, changes: &Changes<'_>) -> Result<Vec<Edit>, JsonError> {
    let mut reader = Reader::new(sample);
    if reader.peek()? != Kind::Object {
        return Err(JsonError::Syntax { offset: reader.offset(), expected: "an object" });
    }
    let dropping = !changes.drop.is_empty();
    let mut edits = Vec::new();
    let mut cutter = Cutter::default();
    let (mut messages, mut calls, mut has_pools) = (None, None, false);
    let mut walk = EventWalk { changes, edits: Vec::new(), gone: HashSet::new() };
    reader.object(|key, r| {
        let start = r.member_start();
        let value = r.offset();
        let kind = r.peek()?;
        let mut keep = true;
        match key {
            "message_pool" | "call_pool" => {
                r.skip()?;
                let place = Place { start, value, end: r.offset(), array: kind == Kind::Array };
                cutter.member(start, place.end, true, &mut edits);
                *(if key == "message_pool" { &mut messages } else { &mut calls }) = Some(place);
                return Ok(());
            }
            "events_data" => has_pools = kind != Kind::Null,
            "scores" if dropping => {
                let mut inner = Cutter::default();
                r.object(|name, r| {
                    let start = r.member_start();
                    let keep = !changes.drops(name);
                    r.skip()?;
                    inner.member(start, r.offset(), keep, &mut walk.edits);
                    Ok::<_, JsonError>(())
                })?;
            }
            "score" => {
                r.skip()?;
                if let Some(name) = changes.single_score {
                    keep = kind != Kind::Null && !changes.drops(name);
                    if keep {
                        let with = [br#""scores":{"#, quoted(name).as_slice(), b":"].concat();
                        walk.edits.push(Edit::replace(start, value, with));
                        walk.edits.push(Edit::replace(r.offset(), r.offset(), "}"));
                    }
                } else if changes.drops("score") {
                    keep = false;
                }
            }
            "events" if dropping => walk.events(r)?,
            "transcript" | "error_retries" if dropping => walk.inside(r)?,
            "timelines" if dropping && !walk.gone.is_empty() => walk.timeline(r, 0)?,
            _ => {}
        }
        if r.offset() == value {
            r.skip()?;
        }
        cutter.member(start, r.offset(), keep, &mut edits);
        Ok::<_, JsonError>(())
    })?;
    reader.end()?;
    edits.append(&mut walk.edits);
    if !has_pools {
        join_pools(messages, calls, &mut edits);
    }
    Ok(edits)
}

/// Writes the pools of the version 3 experiment as `events_data`, where Inspect reads them. Without pools nothing changes.
fn join_pools(messages: Option<Place>, calls: Option<Place>, edits: &mut Vec<Edit>) {
    const MESSAGES: &[u8] = br#""messages":"#;
    const CALLS: &[u8] = br#""calls":"#;
    let (first, second, names) = match (messages, calls) {
        (None, None) => return,
        (Some(m), Some(c)) if c.start < m.start => (c, Some(m), [CALLS, MESSAGES]),
        (Some(m), c) => (m, c, [MESSAGES, CALLS]),
        (None, Some(c)) => (c, None, [CALLS, MESSAGES]),
    };
    // A pool that is no array is as good as none.
    let value = |place: &Place| match place.array {
        true => With::Range(place.value, place.end),
        false => With::Bytes(b"[]".to_vec()),
    };
    edits.push(Edit::replace(first.start, first.value, [br#""events_data":{"#, names[0]].concat()));
    if !first.array {
        edits.push(Edit { start: first.value, end: first.end, with: value(&first) });
    }
    edits.push(Edit::replace(first.end, first.end, [b",", names[1]].concat()));
    match second {
        Some(second) => {
            edits.push(Edit { start: first.end, end: first.end, with: value(&second) });
            edits.push(Edit::replace(first.end, first.end, "}"));
            // It is not the first member, so the comma goes with it.
            edits.push(Edit::cut(second.start - 1, second.end));
        }
        None => edits.push(Edit::replace(first.end, first.end, "[]}")),
    }
}

/// Finds the events that tell of dropped scores.
struct EventWalk<'a> {
    changes: &'a Changes<'a>,
    edits: Vec<Edit>,
    /// Their ids, by which timelines refer to them.
    gone: HashSet<String>,
}

/// What is read of an event.
#[derive(Default)]
struct Event {
    event: String,
    uuid: String,
    id: String,
    span_id: String,
    name: String,
    kind: String,
    action: String,
    scorer: String,
    score_name: String,
}

impl EventWalk<'_> {
    /// Goes through a list of events.
    fn events<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        let mut cutter = Cutter::default();
        // Spans of dropped scorers, and of the open steps whether they are such.
        let mut spans = HashSet::new();
        let mut steps = Vec::new();
        r.array(|_, r| {
            let start = r.member_start();
            let mut event = Event::default();
            r.object(|key, r| {
                let field = match key {
                    "event" => &mut event.event,
                    "uuid" => &mut event.uuid,
                    "id" => &mut event.id,
                    "span_id" => &mut event.span_id,
                    "name" => &mut event.name,
                    "type" => &mut event.kind,
                    "action" => &mut event.action,
                    "scorer" => &mut event.scorer,
                    "score_name" => &mut event.score_name,
                    _ => return Ok(()),
                };
                if r.peek()? == Kind::String {
                    *field = r.text(NAME_CHARS_MAX)?.map(|t| t.text).unwrap_or_default();
                }
                Ok::<_, JsonError>(())
            })?;
            let of_scorer = event.kind == "scorer" && self.changes.drops(&event.name);
            let keep = match event.event.as_str() {
                "span_begin" => {
                    if of_scorer {
                        spans.insert(event.id);
                    }
                    true
                }
                "step" => {
                    match event.action.as_str() {
                        "begin" => steps.push(of_scorer),
                        _ => drop(steps.pop()),
                    }
                    true
                }
                "score" if !event.scorer.is_empty() => !self.changes.drops(&event.scorer),
                // Before the event named its scorer, only what surrounds it tells.
                "score" => !spans.contains(&event.span_id) && !steps.contains(&true),
                "score_edit" => !self.changes.drops(&event.score_name),
                _ => true,
            };
            if !keep && !event.uuid.is_empty() {
                self.gone.insert(event.uuid);
            }
            cutter.member(start, r.offset(), keep, &mut self.edits);
            Ok::<_, JsonError>(())
        })
    }

    /// Goes through the lists of events in an object, or in the objects of a list.
    fn inside<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        if r.peek()? == Kind::Array {
            return r.array(|_, r| self.inside_object(r));
        }
        self.inside_object(r)
    }

    fn inside_object<R: Read>(&mut self, r: &mut Reader<R>) -> Result<(), JsonError> {
        r.object(|key, r| match key {
            "events" => self.events(r),
            _ => Ok::<_, JsonError>(()),
        })
    }

    /// Takes references to events that are gone out of timelines.
    fn timeline<R: Read>(&mut self, r: &mut Reader<R>, depth: usize) -> Result<(), JsonError> {
        if depth == TIMELINE_DEPTH_MAX {
            return r.skip();
        }
        match r.peek()? {
            Kind::Array => {
                let mut cutter = Cutter::default();
                r.array(|_, r| {
                    let start = r.member_start();
                    let gone = self.timeline_item(r, depth)?;
                    cutter.member(start, r.offset(), !gone, &mut self.edits);
                    Ok::<_, JsonError>(())
                })
            }
            _ => self.timeline_item(r, depth).map(drop),
        }
    }

    /// Whether the item stands for an event that is gone.
    fn timeline_item<R: Read>(&mut self, r: &mut Reader<R>, depth: usize) -> Result<bool, JsonError> {
        let mut gone = false;
        r.object(|key, r| match key {
            "content" | "branches" | "root" => self.timeline(r, depth + 1),
            "event" if r.peek()? == Kind::String => {
                gone = r.text(NAME_CHARS_MAX)?.is_some_and(|t| self.gone.contains(&t.text));
                Ok::<_, JsonError>(())
            }
            _ => Ok(()),
        })?;
        Ok(gone)
    }
}

/// Looks for the keys of the version 3 experiment in what is read through it, at the speed of reading.
pub(super) struct Scan<R> {
    source: R,
    finders: [Finder<'static>; 2],
    /// The last bytes of the read before.
    seam: Vec<u8>,
    pub(super) found: bool,
    pub(super) bytes: u64,
}

impl<R: Read> Scan<R> {
    pub(super) fn new(source: R) -> Self {
        let finders = [Finder::new(r#""message_pool""#), Finder::new(r#""call_pool""#)];
        Self { source, finders, seam: Vec::new(), found: false, bytes: 0 }
    }
}

impl<R: Read> Read for Scan<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const SEAM_BYTES: usize = 16;
        let n = self.source.read(buffer)?;
        let piece = &buffer[..n];
        self.bytes += n as u64;
        if !self.found {
            self.seam.extend_from_slice(&piece[..n.min(SEAM_BYTES)]);
            let in_seam = self.finders.iter().any(|f| f.find(&self.seam).is_some());
            self.found = in_seam || self.finders.iter().any(|f| f.find(piece).is_some());
            let keep_from = match n {
                0..SEAM_BYTES => self.seam.len().saturating_sub(SEAM_BYTES),
                _ => {
                    self.seam.clear();
                    self.seam.extend_from_slice(&piece[n - SEAM_BYTES..]);
                    0
                }
            };
            self.seam.drain(..keep_from);
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::edit::Edited;
    use super::*;

    fn change(sample: &str, drop: &[&str], single_score: Option<&str>) -> String {
        let drop: Vec<Glob> = drop.iter().map(|p| Glob::new(p)).collect();
        let edits = plan(&mut sample.as_bytes(), &Changes { drop: &drop, single_score }).unwrap();
        let mut out = String::new();
        Edited::new(edits, || Ok(Box::new(sample.as_bytes()) as Box<dyn Read>))
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        out
    }

    #[test]
    fn pools_become_events_data() {
        for (from, to) in [
            (
                r#"{"id":1, "message_pool": [NaN], "call_pool":[2] }"#,
                r#"{"id":1,"events_data":{"messages":[NaN],"calls":[2]} }"#,
            ),
            (
                r#"{"call_pool":[2],"x":{"call_pool":3},"message_pool":[1],"y":0}"#,
                r#"{"events_data":{"calls":[2],"messages":[1]},"x":{"call_pool":3},"y":0}"#,
            ),
            (r#"{"message_pool":[1]}"#, r#"{"events_data":{"messages":[1],"calls":[]}}"#),
            (
                r#"{"a":0,"message_pool":null,"call_pool":[1]}"#,
                r#"{"a":0,"events_data":{"messages":[],"calls":[1]}}"#,
            ),
        ] {
            assert_eq!(change(from, &[], None), to);
        }
        let both = r#"{"events_data":{},"message_pool":[1]}"#;
        assert_eq!(change(both, &[], None), both);
    }

    #[test]
    fn the_single_score_gets_its_name() {
        let sample = r#"{"id":1,"score":{"value":"C"},"x":2}"#;
        assert_eq!(change(sample, &[], Some("a\"b")), r#"{"id":1,"scores":{"a\"b":{"value":"C"}},"x":2}"#);
        assert_eq!(change(sample, &["a*"], Some("ab")), r#"{"id":1,"x":2}"#);
        assert_eq!(change(r#"{"score":null,"id":1}"#, &[], Some("ab")), r#"{"id":1}"#);
        assert_eq!(change(sample, &[], None), sample);
    }

    #[test]
    fn dropped_scores_go_with_their_events() {
        let sample = r#"{"id":1,"scores":{"keep":{"value":NaN},"mon_a":{"value":1},"mon_b":{"value":2}},"events":[
            {"event":"span_begin","id":"s1","type":"scorer","name":"mon_a"},
            {"event":"score","uuid":"u1","span_id":"s1","score":{"value":1}},
            {"event":"span_begin","id":"s2","type":"scorer","name":"keep"},
            {"event":"score","uuid":"u2","span_id":"s2","score":{"value":1}},
            {"event":"score","uuid":"u3","scorer":"mon_b","score":{"value":2}},
            {"event":"score_edit","score_name":"mon_b"},
            {"event":"step","action":"begin","type":"scorer","name":"mon_a"},
            {"event":"step","action":"begin","type":"x","name":"y"},
            {"event":"score","uuid":"u4"},
            {"event":"step","action":"end","type":"x","name":"y"},
            {"event":"step","action":"end","type":"scorer","name":"mon_a"},
            {"event":"score","uuid":"u5"}],
            "timelines":[{"root":{"content":[{"type":"event","event":"u1"},{"type":"span","content":[{"event":"u3"}]},{"event":"u5"}]}}]}"#;
        let out: serde_json::Value =
            serde_json::from_str(&change(sample, &["mon_*"], None).replace("NaN", "0")).unwrap();
        assert_eq!(out["scores"], serde_json::json!({"keep": {"value": 0}}));
        let uuids: Vec<_> =
            out["events"].as_array().unwrap().iter().filter_map(|e| e["uuid"].as_str()).collect();
        assert_eq!(uuids, ["u2", "u5"]);
        assert_eq!(out["events"].as_array().unwrap().len(), 8);
        assert_eq!(
            out["timelines"],
            serde_json::json!([{"root": {"content": [{"type": "span", "content": []}, {"event": "u5"}]}}])
        );
        assert_eq!(change(sample, &["nothing"], None), sample);
    }

    #[test]
    fn the_scan_sees_keys_across_reads() {
        let text = br#"xxxxxxxxxxxxxxxxxxxxxx"call_pool"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx"#;
        for piece in [1, 2, 3, 7, 15, 16, 17, 30, 100] {
            let mut scan = Scan::new(text.as_slice());
            let mut buffer = vec![0; piece];
            while scan.read(&mut buffer).unwrap() > 0 {}
            assert!(scan.found, "{piece}");
            assert_eq!(scan.bytes, text.len() as u64);
        }
        let mut scan = Scan::new(&b"\"call_poo\" l\""[..]);
        io::copy(&mut scan, &mut io::sink()).unwrap();
        assert!(!scan.found);
    }
}
