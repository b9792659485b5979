//! The trajectories before and behind one in the list that it was found in.
//!
//! An address carries the list's filter and the place in it. The place may have changed, so it is looked at first and
//! searched for around otherwise.

use ct_model::{TrajectoryDocument, TrajectoryId, TrajectoryQuery};
use ct_pages::Query;
use ct_pages::transcript::Neighbours;

use crate::app::App;
use crate::error::ApiError;
use crate::extract::Filters;
use crate::limits;
use crate::routes::trajectories;

pub(super) fn of(
    app: &App,
    id: &TrajectoryId,
    document: &TrajectoryDocument,
    filter: &Query,
) -> Result<Neighbours, ApiError> {
    let at: Option<u64> = filter.get("at").and_then(|at| at.parse().ok());
    let mut filters = Filters::from_pairs(filter.without(&["at"]).pairs().to_vec());
    let has_filter = !filter.without(&["at"]).pairs().is_empty();
    let query = match trajectories::query(&mut filters) {
        Ok(Some(query)) => query,
        // An address that cannot be understood has no list.
        Ok(None) | Err(_) => return Ok(Neighbours::default()),
    };
    // Without a list, those of the same run.
    let query = match has_filter || at.is_some() {
        true => query,
        false => TrajectoryQuery { run_id: document.run_id.clone(), ..query },
    };
    if let Some(at) = at
        && let Some(found) = around(app, id, &query, at)?
    {
        return Ok(found);
    }
    let mut skip = 0;
    while skip < limits::NEIGHBOURS_SEARCHED {
        let page = app.store.trajectory_ids(&TrajectoryQuery {
            skip,
            limit: Some(limits::NEIGHBOURS_PAGE),
            ..query.clone()
        })?;
        if let Some(at) = page.items.iter().position(|item| item == id) {
            return Ok(around(app, id, &query, skip + at as u64)?.unwrap_or_default());
        }
        if (page.items.len() as u64) < limits::NEIGHBOURS_PAGE {
            break;
        }
        skip += limits::NEIGHBOURS_PAGE;
    }
    Ok(Neighbours::default())
}

/// Those around a place, if the trajectory is there.
fn around(
    app: &App,
    id: &TrajectoryId,
    query: &TrajectoryQuery,
    at: u64,
) -> Result<Option<Neighbours>, ApiError> {
    let skip = at.saturating_sub(1);
    let page = app.store.trajectory_ids(&TrajectoryQuery { skip, limit: Some(3), ..query.clone() })?;
    let here = usize::try_from(at - skip).unwrap_or(0);
    if page.items.get(here) != Some(id) {
        return Ok(None);
    }
    let item = |place: usize, at: u64| page.items.get(place).map(|id| (id.to_string(), at));
    Ok(Some(Neighbours {
        previous: here.checked_sub(1).and_then(|before| item(before, at - 1)),
        next: item(here + 1, at + 1),
        at: Some(at),
        total: page.total_count,
    }))
}
