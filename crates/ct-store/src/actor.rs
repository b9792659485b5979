//! Who changes something, for the record.

/// Who makes a change and from where, as the audit log keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    /// The user; absent for someone at the command line of the data folder.
    pub user: Option<String>,
    /// The token that was used, by its id.
    pub token_id: Option<String>,
    /// From where: an address, or `local`.
    pub origin: String,
}

impl Actor {
    /// Someone who works on the data folder itself.
    pub fn local() -> Self {
        Self { user: None, token_id: None, origin: "local".to_owned() }
    }
}
