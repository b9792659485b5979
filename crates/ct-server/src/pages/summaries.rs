//! What the trajectories of a run come to, kept for the runs that were looked at lately: it is small, and making it
//! takes a look at the numbers of each of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ct_model::{LogHash, RunId, RunRecord};
use ct_pages::measure::Summary;

use crate::app::App;
use crate::error::ApiError;
use crate::limits;

/// Summaries by run. One is good as long as the run has the same log and cost.
#[derive(Default)]
pub(crate) struct Summaries {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_run: HashMap<RunId, Entry>,
    /// Goes up with every use.
    clock: u64,
}

struct Entry {
    of: Of,
    summary: Arc<Summary>,
    used: u64,
}

/// What a summary was made of. A log can be priced anew, which changes nothing but costs.
#[derive(Debug, Clone, PartialEq)]
struct Of {
    log: LogHash,
    revisions: usize,
    total_cost_usd: Option<f64>,
}

impl Summaries {
    /// Of a run: kept, or made now.
    pub(crate) fn of(&self, app: &App, run: &RunId, record: &RunRecord) -> Result<Arc<Summary>, ApiError> {
        let of = Of {
            log: record.log.hash.clone(),
            revisions: record.revisions.len(),
            total_cost_usd: record.recorded.total_cost_usd,
        };
        if let Some(summary) = self.find(run, &of) {
            return Ok(summary);
        }
        let summary = Arc::new(Summary::of(&app.store.trajectory_numbers(run)?));
        self.keep(run.clone(), of, Arc::clone(&summary));
        Ok(summary)
    }

    fn find(&self, run: &RunId, of: &Of) -> Option<Arc<Summary>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let clock = kept.clock;
        let entry = kept.by_run.get_mut(run).filter(|entry| entry.of == *of)?;
        entry.used = clock;
        Some(Arc::clone(&entry.summary))
    }

    fn keep(&self, run: RunId, of: Of, summary: Arc<Summary>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_run.len() >= limits::SUMMARIES_MAX && !kept.by_run.contains_key(&run) {
            let oldest = kept.by_run.iter().min_by_key(|(_, entry)| entry.used).map(|(run, _)| run.clone());
            oldest.and_then(|oldest| kept.by_run.remove(&oldest));
        }
        let used = kept.clock;
        kept.by_run.insert(run, Entry { of, summary, used });
    }
}
