//! The pages that people look at, over the same operations of the store as the API.
//!
//! One file per page: it takes a [`visitor::Visitor`] (or, to write, a [`form::Form`]), asks the store on a blocking
//! thread, and gives values to `ct_pages`. Errors are [`crate::error::ApiError`]s, as in the API; [`answer`] makes
//! pages of them. No handler writes HTML itself.

pub(crate) mod answer;
mod assets;
mod chosen;
mod comments;
mod cookies;
mod datasets;
mod flash;
pub(crate) mod form;
mod home;
mod listing;
mod login;
mod run;
mod runs;
pub(crate) mod summaries;
mod tokens;
mod trajectories;
mod trajectory;
pub(crate) mod visitor;

use axum::Router;
use axum::middleware;
use ct_model::DatasetName;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::Filters;

/// The routes of all pages.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .merge(assets::routes())
        .merge(chosen::routes())
        .merge(datasets::routes())
        .merge(home::routes())
        .merge(login::routes())
        .merge(run::routes())
        .merge(runs::routes())
        .merge(tokens::routes())
        .merge(trajectories::routes())
        .merge(trajectory::routes())
        .layer(middleware::from_fn(flash::forget))
}

/// The dataset that a form names.
fn dataset_name(fields: &mut Filters) -> Result<DatasetName, ApiError> {
    let name = fields.text("dataset");
    let name = name.ok_or_else(|| ApiError::invalid("write the name of the dataset first"))?;
    DatasetName::new(name.trim())
        .map_err(|error| ApiError::invalid(error.to_string().replacen("an id", "the name of a dataset", 1)))
}

/// An address to go to afterwards, if it is one of ours.
fn own_address(params: &mut Filters, name: &str) -> Option<String> {
    params.text(name).filter(|address| is_own(address))
}

/// Whether a browser reads it as a path on this host. It takes `\` for `/`, and leaves out some characters.
fn is_own(address: &str) -> bool {
    address.starts_with('/')
        && !address[1..].starts_with(['/', '\\'])
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_addresses_are_gone_to() {
        for good in ["/", "/runs?name=a%20b", "/runs/a#b"] {
            assert!(is_own(good), "{good}");
        }
        for bad in
            ["", "runs", "//host", "/\\host", "http://host", "/\t/host", "/a\n", "/a\\b", "javascript:x"]
        {
            assert!(!is_own(bad), "{bad:?}");
        }
    }
}
