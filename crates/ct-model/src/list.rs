//! Several values in one parameter of an address: `a,b`. A comma within a value is written `\,` and a backslash before a
//! comma or a backslash `\\`, so that every text can be a value.

/// The values between commas, without the blanks around them. Empty ones are left out.
pub fn list_values(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            ',' => values.push(String::new()),
            '\\' if matches!(characters.peek(), Some(',' | '\\')) => {
                let last = values.last_mut().expect("there is one from the beginning");
                last.extend(characters.next());
            }
            other => values.last_mut().expect("there is one from the beginning").push(other),
        }
    }
    let trimmed = values.iter().map(|value| value.trim());
    trimmed.filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

/// A value as it is written in such a list.
pub fn list_item(value: &str) -> String {
    let mut item = String::with_capacity(value.len());
    let mut characters = value.chars().peekable();
    while let Some(character) = characters.next() {
        // A backslash by itself needs no other, so that most texts are written as they are.
        let is_read_as_mark = match character {
            ',' => true,
            '\\' => characters.peek().is_none_or(|next| matches!(next, ',' | '\\')),
            _ => false,
        };
        if is_read_as_mark {
            item.push('\\');
        }
        item.push(character);
    }
    item
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_stand_between_commas() {
        assert_eq!(list_values("a, b ,,c\\,d,e\\f"), ["a", "b", "c,d", "e\\f"]);
        assert_eq!(list_item("c,d"), "c\\,d");
        assert_eq!(list_item("e\\f"), "e\\f");
    }

    proptest! {
        #[test]
        fn every_text_can_be_a_value(values in prop::collection::vec("[a,\\\\ ]{0,6}", 0..4)) {
            let values: Vec<String> =
                values.iter().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()).collect();
            let text = values.iter().map(|value| list_item(value)).collect::<Vec<_>>().join(",");
            prop_assert_eq!(list_values(&text), values);
        }
    }
}
