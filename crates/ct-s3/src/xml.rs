//! Answers: small documents, made into trees. Namespaces and attributes say nothing here.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Elements of one answer; a page of a list has about ten for each of a thousand objects.
const ELEMENTS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 16;

/// An element.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// Its text, less what stands in elements.
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// The text of the first child of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.children.iter().find(|child| child.name == name).map(|child| child.text.as_str())
    }

    /// All children of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// The root of a document, or what is wrong with it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Element, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "its answer is no text".to_owned())?;
    let mut reader = Reader::from_str(text);
    let mut open = vec![Element::default()];
    let mut count = 0;
    loop {
        let event = reader.read_event().map_err(|error| format!("its answer is no XML ({error})"))?;
        match event {
            Event::Start(start) => {
                count += 1;
                if count > ELEMENTS_MAX || open.len() > DEPTH_MAX {
                    return Err("its answer is too large".to_owned());
                }
                open.push(Element { name: name(start.local_name().as_ref()), ..Element::default() });
            }
            Event::Empty(start) => {
                let element = Element { name: name(start.local_name().as_ref()), ..Element::default() };
                open.last_mut().ok_or("its answer is no XML")?.children.push(element);
            }
            Event::End(_) => {
                let element = open.pop().ok_or("its answer is no XML")?;
                open.last_mut().ok_or("its answer is no XML")?.children.push(element);
            }
            Event::Text(text) => {
                let text: &str = &text;
                open.last_mut().ok_or("its answer is no XML")?.text.push_str(text);
            }
            Event::CData(text) => {
                let text: &str = &text;
                open.last_mut().ok_or("its answer is no XML")?.text.push_str(text);
            }
            Event::GeneralRef(reference) => {
                let text = &mut open.last_mut().ok_or("its answer is no XML")?.text;
                let entity: &str = &reference;
                match reference.resolve_char_ref() {
                    Ok(Some(c)) => text.push(c),
                    _ => text.push_str(
                        quick_xml::escape::resolve_predefined_entity(entity)
                            .ok_or_else(|| format!("its answer has an unknown entity &{entity};"))?,
                    ),
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    match open.as_mut_slice() {
        [document] => document.children.pop().ok_or_else(|| "its answer is empty".to_owned()),
        _ => Err("its answer ends too early".to_owned()),
    }
}

fn name(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

/// Text that can stand in an element.
pub(crate) fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_trees() {
        let root = parse(
            b"<?xml version=\"1.0\"?>\n<List xmlns=\"x\"><Name>a&amp;b&#33;</Name><E/><C><K>1</K></C><C><K>2</K></C></List>",
        )
        .unwrap();
        assert_eq!(root.name, "List");
        assert_eq!(root.get("Name"), Some("a&b!"));
        assert_eq!(root.get("E"), Some(""));
        assert_eq!(root.all("C").filter_map(|c| c.get("K")).collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn other_answers_are_told() {
        for bad in [&b""[..], b"<a><b></a>", b"<a>", b"\xff", b"<a>&nope;</a>"] {
            assert!(parse(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        let deep = "<a>".repeat(99);
        assert!(parse(deep.as_bytes()).is_err());
    }
}
