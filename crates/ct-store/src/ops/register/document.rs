//! One document as a client sent it: checked, and kept in the client's own words.

use std::borrow::Cow;
use std::fmt;

use ct_model::{ObjectKey, TrajectoryDocument};
use jiff::Timestamp;
use memchr::memchr2;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::own;
use crate::actor::Actor;

/// The fields that are null when nothing decided them. Other nulls are left out.
const NULLABLE: [&str; 3] = ["main_task_success", "side_task_success", "error"];

/// A document without what its client does not decide.
pub(super) struct SentDocument {
    /// What it says, but for `eval_metadata`.
    pub(super) typed: TrajectoryDocument,
    /// The same as JSON.
    pub(super) text: String,
    /// An object.
    pub(super) eval_metadata: Box<RawValue>,
}

impl SentDocument {
    /// Reads it; else says what is wrong, after the field where that is.
    pub(super) fn read(json: &str, actor: &Actor, now: Timestamp) -> Result<Self, String> {
        let fields: Fields<'_> = serde_json::from_str(json).map_err(|_| "not an object".to_owned())?;
        let mut text = String::with_capacity(json.len());
        let mut eval_metadata = "{}";
        for (name, value) in fields.0 {
            let value = value.get();
            if value == "null" && !NULLABLE.contains(&&*name) {
                continue;
            }
            match &*name {
                "created_at" | "created_by" => {}
                "eval_metadata" => eval_metadata = value,
                "comments" | "step_comments" => {
                    let mut field = Map::from_iter([(name.to_string(), parsed(&name, value)?)]);
                    own(&mut field, actor, now);
                    put(&mut text, &name, &field[&*name].to_string());
                }
                _ => put(&mut text, &name, value),
            }
        }
        if text.is_empty() {
            text.push('{');
        }
        text.push('}');
        parsed::<Map<String, Value>>("eval_metadata", eval_metadata)?;
        let mut compacted = String::with_capacity(eval_metadata.len());
        compact(eval_metadata, &mut compacted);
        let eval_metadata = RawValue::from_string(compacted).map_err(|error| error.to_string())?;
        let (typed, text) = match serde_json::from_str(&text) {
            Ok(typed) => (typed, text),
            // This takes longer and tells where it is wrong. It also takes a field that comes twice: the last one counts.
            Err(_) => {
                let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
                (self::typed(&value)?, value.to_string())
            }
        };
        Ok(Self { typed, text, eval_metadata })
    }

    /// The log goes by another name from now on.
    pub(super) fn rename_log(&mut self, key: &ObjectKey) -> Result<(), String> {
        let mut fields: Map<String, Value> =
            serde_json::from_str(&self.text).map_err(|error| error.to_string())?;
        fields.remove("eval_log_url");
        if let Some(Value::Object(range)) = fields.get_mut("eval_sample_range") {
            range.insert("key".to_owned(), json!(key.to_string()));
        }
        self.text = Value::Object(fields).to_string();
        Ok(())
    }
}

/// The fields of an object, in their order, each as it was written.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name<'a>(Cow<'a, str>);

        impl<'de> Deserialize<'de> for Name<'de> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Names;
                impl<'de> Visitor<'de> for Names {
                    type Value = Name<'de>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a name")
                    }
                    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                        Ok(Name(Cow::Borrowed(name)))
                    }
                    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                        Ok(Name(Cow::Owned(name.to_owned())))
                    }
                }
                deserializer.deserialize_str(Names)
            }
        }

        struct Objects;
        impl<'de> Visitor<'de> for Objects {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(48);
                while let Some((Name(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Objects)
    }
}

/// Adds a field to the text of an object, which is not closed.
fn put(text: &mut String, name: &str, value: &str) {
    text.push(if text.is_empty() { '{' } else { ',' });
    text.push_str(&Value::from(name).to_string());
    text.push(':');
    compact(value, text);
}

/// Adds valid JSON to a text, without the spaces between its parts.
fn compact(json: &str, text: &mut String) {
    let mut rest = json;
    while let Some(quote) = rest.find('"') {
        text.extend(rest[..quote].split_ascii_whitespace());
        let mut end = quote + 1;
        while let Some(at) = memchr2(b'"', b'\\', &rest.as_bytes()[end..]) {
            let is_end = rest.as_bytes()[end + at] == b'"';
            end += at + if is_end { 1 } else { 2 };
            if is_end {
                break;
            }
        }
        text.push_str(&rest[quote..end]);
        rest = &rest[end..];
    }
    text.extend(rest.split_ascii_whitespace());
}

fn parsed<T: DeserializeOwned>(name: &str, json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| format!("{name}: {error}"))
}

/// Makes of JSON what it should be; else says which field is not, and why.
pub(super) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    // Telling the path costs time, so it is looked for only when it is needed.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let error = error.into_inner();
            if path == "." { error.to_string() } else { format!("{path}: {error}") }
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Result<SentDocument, String> {
        SentDocument::read(json, &Actor::default(), Timestamp::UNIX_EPOCH)
    }

    const REQUIRED: &str = r#""eval_sample_id": "1", "epoch": 1, "name": "n", "number_of_actions": 0, "main_task_success": null"#;

    #[test]
    fn words_are_kept_as_they_were_written() {
        let sent = read(&format!(
            "{{{REQUIRED}, \"tags\": null, \"created_by\": \"eve\", \"a \\\"b\": [1e400, \" \\\\\", 18446744073709551617],\n \
             \"eval_metadata\": {{ \"x\": 1.50 }} }}"
        ));
        let message = sent.err().expect("1e400 is no number that can be told again");
        assert!(message.contains("number out of range"), "{message}");

        let sent = read(&format!(
            "{{{REQUIRED}, \"tags\": null, \"created_by\": \"eve\", \"a \\\"b\": [\" \\\\\"]}}"
        ));
        let sent = sent.unwrap();
        let kept = REQUIRED.replace(": ", ":").replace(", ", ",");
        assert_eq!(sent.text, format!("{{{kept},\"a \\\"b\":[\" \\\\\"]}}"));
        assert_eq!(sent.typed.extra["a \"b"], json!([" \\"]));
        assert_eq!(sent.eval_metadata.get(), "{}");
    }

    #[test]
    fn of_a_field_that_comes_twice_the_last_counts() {
        let sent = read(&format!("{{{REQUIRED}, \"name\": \"other\"}}")).unwrap();
        assert_eq!(sent.typed.name, "other");
        let again: TrajectoryDocument = serde_json::from_str(&sent.text).unwrap();
        assert_eq!(again, sent.typed);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |json: &str| read(json).err().unwrap();
        assert_eq!(error("[]"), "not an object");
        let deep =
            format!("{{{REQUIRED}, \"metadata\": {{\"a\": {}1{}}}}}", "[".repeat(200), "]".repeat(200));
        assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
        let deep = deep.replace("\"metadata\"", "\"eval_metadata\"");
        assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
        assert!(error(&format!("{{{REQUIRED}, \"eval_metadata\": 1}}")).starts_with("eval_metadata: "));
        let wrong = error(&format!("{{{REQUIRED}, \"main_task\": {{\"id\": 5}}}}"));
        assert!(wrong.starts_with("main_task.id: "), "{wrong}");
    }

    fn json_values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ \"\\\\a\u{e9}\n\t]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[ \"\\\\b]{0,4}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn only_spaces_between_parts_go(value in json_values()) {
            let mut text = String::new();
            compact(&serde_json::to_string_pretty(&value).unwrap(), &mut text);
            prop_assert_eq!(text, value.to_string());
        }
    }
}
