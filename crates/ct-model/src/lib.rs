//! The run domain: run headers, trajectory documents, their conversion from eval logs, filters, sampling, prices.
//!
//! Nothing here opens a file, a socket or a database, and nothing reads the clock or the environment: every function
//! takes values (or an already opened [`ct_log`] reader) and returns values.

mod account;
mod bundle;
pub mod convert;
mod csv;
mod dataset;
mod filter;
mod id;
mod list;
mod log_hasher;
mod object;
mod price;
mod query;
mod record;
mod run;
pub mod sampling;
mod stored_log;
mod trajectory;
pub mod transcript;

pub use account::{
    AuditPage, AuditQuery, AuditRow, CreatedToken, LoggedIn, Login, NewToken, Scope, ScopeError, TokenRow,
    UserRow, WhoAmI,
};
pub use bundle::BundleFrame;
pub use csv::Csv;
pub use dataset::{
    Dataset, DatasetChange, DatasetEdit, DatasetKind, DatasetLock, DatasetPage, DatasetQuery, DatasetVersion,
    DatasetVersionQuery,
};
pub use filter::{Field, FieldError, Filter, FilterError};
pub use id::{DatasetName, IdError, RunId, TrajectoryId};
pub use list::{list_item, list_values};
pub use log_hasher::LogHasher;
pub use object::{ObjectKey, ObjectKeyError, sample_url};
pub use price::{PriceError, PriceRow, PriceTable, PriceTier, Pricing, billed_output_tokens, round_usd};
pub use query::{
    ChoiceError, Cursor, Outcome, RunQuery, RunSort, RunStatus, TrajectoryQuery, TrajectorySort, names_match,
};
pub use record::{
    LogFormat, LogHash, LogHashError, LogRef, OutcomeCounts, Revision, RunEdit, RunEditError, RunPage,
    RunRecord, RunRow, TaskCounts, TrajectoryNumbers, TrajectoryPage, TrajectoryRow, Values,
};
pub use run::{Comment, Producer, RunHeader};
pub use stored_log::StoredLog;
pub use trajectory::{
    ActionSummary, Environment, MainTask, ModelUsage, MonitorSummary, RoleCost, SampleError, SampleRange,
    SideTask, TaskRole, TaskScore, Timing, TrajectoryDocument,
};
