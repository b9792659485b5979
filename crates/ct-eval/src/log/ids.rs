//! Ids as Inspect makes them: 22 characters that cannot be mistaken for each other.

const ALPHABET: &[u8; 57] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const LENGTH: usize = 22;

/// A new one.
pub(crate) fn new_id() -> String {
    let mut id = String::with_capacity(LENGTH);
    while id.len() < LENGTH {
        let mut bytes = [0; 32];
        // An id that is not unique would be worse than none.
        getrandom::fill(&mut bytes).expect("the system gives random numbers");
        // Each character as likely as the others: what goes beyond four full alphabets is drawn anew.
        let fair = bytes.iter().filter(|&&b| usize::from(b) < 4 * ALPHABET.len());
        id.extend(
            fair.map(|&b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()])).take(LENGTH - id.len()),
        );
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_of_one_length_and_differ() {
        let ids: std::collections::HashSet<String> = (0..500).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 500);
        assert!(ids.iter().all(|id| id.len() == LENGTH && id.bytes().all(|b| ALPHABET.contains(&b))));
    }
}
