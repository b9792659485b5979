//! Users and tokens: the interface that another database can implement.

use ct_model::LogHash;
use jiff::Timestamp;

use crate::error::Result;
use crate::ops::Identity;

/// Where accounts are kept.
pub(crate) trait AccountStore: Send + Sync {
    /// Whose token has this SHA-256, when it is valid at `now`. Notes that it was used, at most once a minute.
    fn identity(&self, token_hash: &LogHash, now: Timestamp) -> Result<Option<Identity>>;
    /// The secret of a name; keeps what `make` makes when there is none.
    fn secret(&self, name: &str, make: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<Vec<u8>>;
}
