//! Comments on runs, on trajectories, and on single actions of them.
//!
//! Who and when are the server's. Users change their own comments, administrators any. A deleted comment is marked so.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use ct_model::{Comment, Scope};
use ct_store::{About, Author};
use serde::{Deserialize, Serialize};
use utoipa::{IntoResponses, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{runs, trajectories};
use crate::app::App;
use crate::auth::{Caller, Reader, Writer};
use crate::error::{ApiError, ErrorEnvelope};
use crate::extract::{Body, Path};
use crate::sample;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(add_to_run))
        .routes(routes!(edit_of_run, delete_of_run))
        .routes(routes!(of_trajectory, add_to_trajectory))
        .routes(routes!(edit_of_trajectory, delete_of_trajectory))
}

/// Who comments: administrators may change what others wrote.
pub(crate) fn author(caller: &Caller) -> Author {
    Author { actor: caller.actor(), any: caller.identity.scope >= Scope::Admin }
}

/// What a comment on a trajectory is about.
pub(crate) fn about(action: Option<u64>, step: Option<u64>) -> Result<About, ApiError> {
    match (action, step) {
        (None, None) => Ok(About::Whole),
        (Some(action), None) => Ok(About::Action(action)),
        (None, Some(step)) => Ok(About::Step(step)),
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("a comment is about an action or about a step: give one of the two"))
        }
    }
}

/// A text, for a comment on a run or for one that is there.
#[derive(Debug, Deserialize, ToSchema)]
struct CommentText {
    /// Plain text; not empty.
    #[schema(min_length = 1, max_length = 100_000)]
    text: String,
}

/// A comment on a trajectory, or on one of its actions or steps.
#[derive(Debug, Deserialize, ToSchema)]
struct NewComment {
    /// Plain text; not empty.
    #[schema(min_length = 1, max_length = 100_000)]
    text: String,
    /// The number of an action, from 0; absent: the whole trajectory is meant.
    #[serde(default)]
    action: Option<u64>,
    /// The number of a step that calls no tool, as the pages count them; not together with an action.
    #[serde(default)]
    step: Option<u64>,
}

/// The comments on a trajectory, oldest first.
#[derive(Debug, Serialize, ToSchema)]
struct Comments {
    /// On the whole of it, and on steps that call no tool: these have a `step`.
    comments: Vec<Comment>,
    /// On single actions, by their number from 0.
    #[schema(value_type = std::collections::HashMap<String, Vec<Comment>>)]
    step_comments: BTreeMap<u64, Vec<Comment>>,
}

/// What is not done, and why.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes what all writes here may answer")]
enum Refused {
    /// The text is empty or too long, there are too many comments, or there is no such action
    /// or step.
    #[response(status = 400)]
    Invalid(ErrorEnvelope),
    /// A token is needed.
    #[response(status = 401)]
    Unauthorized(ErrorEnvelope),
    /// The token may not write, or the comment is someone else's.
    #[response(status = 403)]
    Forbidden(ErrorEnvelope),
    /// There is no such run, trajectory or comment.
    #[response(status = 404)]
    NotFound(ErrorEnvelope),
    /// The run is deleted.
    #[response(status = 409)]
    Deleted(ErrorEnvelope),
}

/// Adds a comment to a run.
#[utoipa::path(post, path = "/api/runs/{id}/comments", tag = "comments", params(("id" = String, Path)),
    request_body = CommentText, responses(
    (status = 200, description = "The comment.", body = Comment), Refused))]
async fn add_to_run(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
    Body(new): Body<CommentText>,
) -> Result<Json<Comment>, ApiError> {
    let run = runs::run_id(&id)?;
    app.blocking(move |app| Ok(Json(app.store.comment_on_run(&run, &new.text, &author(&caller))?))).await
}

/// Gives a comment on a run another text.
#[utoipa::path(patch, path = "/api/runs/{id}/comments/{comment_id}", tag = "comments",
    params(("id" = String, Path), ("comment_id" = String, Path)), request_body = CommentText, responses(
    (status = 200, description = "The comment.", body = Comment), Refused))]
async fn edit_of_run(
    State(app): State<App>,
    Writer(caller): Writer,
    Path((id, comment_id)): Path<(String, String)>,
    Body(new): Body<CommentText>,
) -> Result<Json<Comment>, ApiError> {
    let run = runs::run_id(&id)?;
    app.blocking(move |app| {
        Ok(Json(app.store.edit_run_comment(&run, &comment_id, &new.text, &author(&caller))?))
    })
    .await
}

/// Marks a comment on a run as deleted.
#[utoipa::path(delete, path = "/api/runs/{id}/comments/{comment_id}", tag = "comments",
    params(("id" = String, Path), ("comment_id" = String, Path)), responses(
    (status = 200, description = "The comment.", body = Comment), Refused))]
async fn delete_of_run(
    State(app): State<App>,
    Writer(caller): Writer,
    Path((id, comment_id)): Path<(String, String)>,
) -> Result<Json<Comment>, ApiError> {
    let run = runs::run_id(&id)?;
    app.blocking(move |app| Ok(Json(app.store.delete_run_comment(&run, &comment_id, &author(&caller))?)))
        .await
}

/// The comments on a trajectory and on its actions; deleted ones too, marked so.
#[utoipa::path(get, path = "/api/trajectories/{id}/comments", tag = "comments", params(("id" = String, Path)),
    responses(
    (status = 200, description = "The comments.", body = Comments),
    (status = 401, description = "A token is needed.", body = ErrorEnvelope),
    (status = 404, description = "There is no such trajectory.", body = ErrorEnvelope)))]
async fn of_trajectory(
    State(app): State<App>,
    _: Reader,
    Path(id): Path<String>,
) -> Result<Json<Comments>, ApiError> {
    let id = trajectories::trajectory_id(&id)?;
    app.blocking(move |app| {
        let document = sample::find(app, &id)?.document;
        let found = app.store.trajectory_comments(&document)?;
        Ok(Json(Comments { comments: found.comments, step_comments: found.step_comments }))
    })
    .await
}

/// Adds a comment to a trajectory, or to one of its actions or steps.
#[utoipa::path(post, path = "/api/trajectories/{id}/comments", tag = "comments", params(("id" = String, Path)),
    request_body = NewComment, responses(
    (status = 200, description = "The comment.", body = Comment), Refused))]
async fn add_to_trajectory(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<String>,
    Body(new): Body<NewComment>,
) -> Result<Json<Comment>, ApiError> {
    let id = trajectories::trajectory_id(&id)?;
    let about = about(new.action, new.step)?;
    app.blocking(move |app| {
        Ok(Json(app.store.comment_on_trajectory(&id, about, &new.text, &author(&caller))?))
    })
    .await
}

/// Gives a comment on a trajectory another text.
#[utoipa::path(patch, path = "/api/trajectories/{id}/comments/{comment_id}", tag = "comments",
    params(("id" = String, Path), ("comment_id" = String, Path)), request_body = CommentText, responses(
    (status = 200, description = "The comment.", body = Comment), Refused))]
async fn edit_of_trajectory(
    State(app): State<App>,
    Writer(caller): Writer,
    Path((id, comment_id)): Path<(String, String)>,
    Body(new): Body<CommentText>,
) -> Result<Json<Comment>, ApiError> {
    let id = trajectories::trajectory_id(&id)?;
    app.blocking(move |app| {
        Ok(Json(app.store.edit_trajectory_comment(&id, &comment_id, &new.text, &author(&caller))?))
    })
    .await
}

/// Marks a comment on a trajectory as deleted.
#[utoipa::path(delete, path = "/api/trajectories/{id}/comments/{comment_id}", tag = "comments",
    params(("id" = String, Path), ("comment_id" = String, Path)), responses(
    (status = 200, description = "The comment.", body = Comment), Refused))]
async fn delete_of_trajectory(
    State(app): State<App>,
    Writer(caller): Writer,
    Path((id, comment_id)): Path<(String, String)>,
) -> Result<Json<Comment>, ApiError> {
    let id = trajectories::trajectory_id(&id)?;
    app.blocking(move |app| {
        Ok(Json(app.store.delete_trajectory_comment(&id, &comment_id, &author(&caller))?))
    })
    .await
}
