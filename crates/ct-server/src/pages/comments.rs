//! What comments said before they were edited.

use ct_model::{AuditQuery, Comment};
use ct_pages::Earlier;

use crate::app::App;
use crate::error::ApiError;
use crate::limits;

/// What edited comments said before, newest first. Asked for only where a comment was edited. `subject` is what the
/// audit log calls the thing that they are on.
pub(super) fn earlier<'a>(
    app: &App,
    subject: &str,
    comments: impl IntoIterator<Item = &'a Comment>,
) -> Result<Vec<Earlier>, ApiError> {
    let is_edited = |comment: &Comment| comment.extra.get("edited").is_some_and(|edited| !edited.is_null());
    if !comments.into_iter().any(is_edited) {
        return Ok(Vec::new());
    }
    let query = AuditQuery {
        subject: Some(subject.to_owned()),
        action: Some("comment.edit".to_owned()),
        limit: limits::COMMENT_EDITS_MAX,
        ..AuditQuery::default()
    };
    let rows = app.store.audit_rows(&query)?.into_iter();
    let earlier = rows.filter_map(|row| {
        let detail = row.detail?;
        let text = |key: &str| detail.get(key).and_then(|text| text.as_str()).map(str::to_owned);
        Some(Earlier { comment_id: text("comment_id")?, text: text("before")?, until: row.made_at })
    });
    Ok(earlier.collect())
}
