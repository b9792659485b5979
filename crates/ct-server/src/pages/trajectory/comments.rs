//! Comments on a trajectory, its actions and its steps: what the page shows of them, and the forms that change them.

use axum::extract::State;
use axum::response::Response;
use ct_pages::{Earlier, Query, transcript};

use super::super::answer;
use super::super::comments::earlier;
use super::super::form::Form;
use super::asked::{Asked, Reading};
use super::steps::chunk_of;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::Path;
use crate::routes::comments::{about, author};
use crate::routes::trajectories::trajectory_id;

/// All comments of a trajectory.
pub(super) struct Commented {
    pub(super) placed: transcript::Comments,
    /// What they said before they were edited.
    pub(super) earlier: Vec<Earlier>,
}

impl Commented {
    pub(super) fn read(reading: &Reading) -> Result<Self, ApiError> {
        let found = reading.app.store.trajectory_comments(&reading.opened.found.document)?;
        let all = found.comments.iter().chain(found.step_comments.values().flatten());
        let earlier = earlier(&reading.app, &format!("trajectory {}", reading.id), all)?;
        Ok(Self { placed: transcript::Comments::new(found.comments, found.step_comments), earlier })
    }
}

/// Those that do not stand at a step.
pub(super) async fn panel(asked: Asked) -> Result<Response, ApiError> {
    asked
        .fragment(|reading| {
            let comments = Commented::read(reading)?;
            Ok(transcript::comments(&reading.place(&comments.earlier), &comments.placed))
        })
        .await
}

/// Adds a comment, gives one another text, deletes it, or takes that back.
pub(super) async fn change(
    State(app): State<App>,
    Path(id): Path<String>,
    Form { caller, mut fields, .. }: Form,
) -> Result<Response, ApiError> {
    let id = trajectory_id(&id)?;
    let (action, step): (Option<u64>, Option<u64>) = (fields.value("action")?, fields.value("step")?);
    let about = about(action, step)?;
    let change = fields.text("change");
    let comment = fields.text("comment").unwrap_or_default();
    let text = fields.text("text").unwrap_or_default().replace("\r\n", "\n");
    let path =
        super::super::own_address(&mut fields, "next").unwrap_or_else(|| format!("/trajectories/{id}"));
    let by = author(&caller);
    app.blocking(move |app| {
        match change.as_deref() {
            Some("edit") => app.store.edit_trajectory_comment(&id, &comment, &text, &by)?,
            Some("delete") => app.store.delete_trajectory_comment(&id, &comment, &by)?,
            Some("restore") => app.store.restore_trajectory_comment(&id, &comment, &by)?,
            _ => app.store.comment_on_trajectory(&id, about, &text, &by)?,
        };
        Ok(())
    })
    .await?;
    // Back to where it stands.
    let parameter = |name: &str, number: u64| {
        let mark = if path.contains('?') { '&' } else { '?' };
        format!(
            "{mark}{}",
            Query::new([(name.to_owned(), number.to_string())]).on("").trim_start_matches('?')
        )
    };
    Ok(answer::to(&match (action, step) {
        (Some(action), _) => format!("{path}{}#action-{action}", parameter("action", action)),
        (None, Some(step)) => {
            let from = chunk_of(usize::try_from(step).unwrap_or(usize::MAX));
            format!("{path}{}#step-{step}", parameter("from", from as u64))
        }
        (None, None) => format!("{path}#comments"),
    }))
}
