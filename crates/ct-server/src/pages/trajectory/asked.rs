//! What every request for a transcript, or for a piece of one, has: whose, by whom, and the list it was found in.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse as _, Response};
use ct_log::json::JsonError;
use ct_model::transcript::{PartReader, Room, suspicion_scale};
use ct_model::{Scope, TrajectoryId};
use ct_pages::transcript::{Medium, Place};
use ct_pages::{Earlier, Markup, Query, page};

use super::super::visitor::Visitor;
use crate::app::App;
use crate::error::{ApiError, causes};
use crate::extract::{Filters, Path};
use crate::routes::trajectories::trajectory_id;
use crate::sample::{Found, find, open_log, unreadable};
use crate::transcripts::Transcript;

/// What an address carries of a list beside the list's own parameters: other names for some, and the place in it.
const MORE_PARAMETERS: [&str; 5] =
    ["tags", "main_task_outcome", "side_task_outcome", "include_deleted", "at"];
/// Parameters of the list that have another meaning here, or none.
const NOT_PARAMETERS: [&str; 2] = ["from", "cursor"];

/// A request for a transcript, or for a piece of it.
pub(super) struct Asked {
    app: App,
    pub(super) id: TrajectoryId,
    pub(super) visitor: Visitor,
    /// The list that the trajectory was found in.
    pub(super) filter: Query,
    pub(super) params: Filters,
}

/// A trajectory whose sample is being read, or was.
pub(super) struct Opened {
    pub(super) found: Found,
    pub(super) transcript: Arc<Transcript>,
}

impl FromRequestParts<App> for Asked {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let visitor = Visitor::from_request_parts(parts, app).await?;
        let Path(id) = Path::<String>::from_request_parts(parts, app).await?;
        let State(app) =
            State::<App>::from_request_parts(parts, app).await.unwrap_or_else(|never| match never {});
        let params = Filters::parse(parts.uri.query().unwrap_or_default());
        Ok(Self { app, id: trajectory_id(&id)?, visitor, filter: filter(parts.uri.query()), params })
    }
}

fn filter(query: Option<&str>) -> Query {
    let pairs = Filters::parse(query.unwrap_or_default()).into_pairs();
    let of_list = page::trajectories::parameters();
    Query::new(pairs.into_iter().filter(|(name, _)| {
        let name = name.as_str();
        let known = of_list.contains(&name) || MORE_PARAMETERS.contains(&name);
        known && !NOT_PARAMETERS.contains(&name)
    }))
}

/// Opens a trajectory for reading; its sample may still be on its way when this returns.
pub(super) fn opened(app: &App, id: &TrajectoryId) -> Result<Opened, ApiError> {
    let found = find(app, id)?;
    let size = found.document.eval_sample_range.as_ref().map(|range| range.uncompressed_size);
    let transcript = app.transcripts.get(id, &found.run.log.hash, size, || {
        let log = open_log(app, &found.run.log)?;
        log.read(&found.document).map_err(|error| unreadable(id, &error))
    })?;
    Ok(Opened { found, transcript })
}

impl Opened {
    /// A part that cannot be read although the sample could.
    pub(super) fn failed(&self, error: &JsonError) -> ApiError {
        let id = self.found.document.trajectory_id.as_ref();
        tracing::error!(trajectory = ?id, cause = %causes(error), "a part of a stored sample cannot be read");
        ApiError::damaged("this part of the stored sample cannot be read; `ct store check` tells more")
    }
}

/// What [`Asked::read`] works with.
pub(super) struct Reading {
    pub(super) app: App,
    pub(super) opened: Opened,
    pub(super) id: TrajectoryId,
    pub(super) filter: Query,
    medium: Medium,
    visitor: Visitor,
    id_text: String,
}

impl Reading {
    pub(super) fn on(self, medium: Medium) -> Self {
        Self { medium, ..self }
    }

    /// Reads parts of the sample, as many as the medium takes.
    pub(super) fn reader(&self) -> PartReader<'_> {
        let reader = self.opened.transcript.reader();
        if self.medium == Medium::Screen { reader } else { reader.with_room(Room::PAPER) }
    }

    /// Where it is, for what is drawn of it.
    pub(super) fn place<'a>(&'a self, earlier: &'a [Earlier]) -> Place<'a> {
        let Opened { found, transcript } = &self.opened;
        // The first event is the beginning; a document may count from when its run began.
        let first = transcript.reader().model_call(0).ok().and_then(|event| event.began_ms);
        let timing = found.document.timing.as_ref();
        // The document knows the highest verdict before the sample is read.
        let monitors = found.document.monitors.iter().flat_map(|monitors| monitors.values());
        let scale = match monitors.filter_map(|monitor| monitor.max).reduce(f64::max) {
            Some(highest) => suspicion_scale(highest as f32),
            None => transcript.index().suspicion_scale(),
        };
        Place {
            id: &self.id_text,
            filter: &self.filter,
            medium: self.medium,
            began_ms: first.or(timing.and_then(|timing| timing.time_started)),
            scale,
            visit: &self.visitor.visit,
            earlier,
            may_change_all: self
                .visitor
                .identity
                .as_ref()
                .is_some_and(|identity| identity.scope >= Scope::Admin),
        }
    }
}

impl Asked {
    /// Opens the trajectory, and reads of it on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(&Reading) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.take(|reading| read(&reading)).await
    }

    /// As [`Self::read`], for what goes on to read afterwards.
    pub(super) async fn take<T: Send + 'static>(
        self,
        read: impl FnOnce(Reading) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Self { app, id, visitor, filter, .. } = self;
        app.blocking(move |app| {
            let opened = opened(app, &id)?;
            let id_text = id.to_string();
            let medium = Medium::Screen;
            read(Reading { app: app.clone(), opened, id, filter, medium, visitor, id_text })
        })
        .await
    }

    /// As [`Self::read`], for a piece of a page.
    pub(super) async fn fragment(
        self,
        draw: impl FnOnce(&Reading) -> Result<Markup, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let markup = self.read(draw).await?;
        Ok(Html(markup.into_string()).into_response())
    }
}
