//! What the binary ships: every reference solution passes its scorer, an idle agent passes none.

use ct_environment::{Catalog, SandboxKind, validate};

use crate::support::{for_each_kind, host};

for_each_kind!(solutions_pass_and_idling_fails);

async fn solutions_pass_and_idling_fails(kind: SandboxKind) {
    let catalog = Catalog::new([]).expect("a catalog");
    let list = catalog.list();
    assert!(list.len() >= 3, "{list:?}");
    for listing in list {
        let environment = listing.environment.unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(environment.warnings, Vec::<String>::new());
        assert!(environment.tasks().all(|task| task.task().solution.is_some()));
        let Some(host) = host(&environment, kind).await else { return };
        let results = validate(&host, |_| ()).await;
        assert_eq!(results.len(), 2 * environment.tasks().count());
        let failed: Vec<_> = results.iter().filter(|result| !result.passed).collect();
        assert!(failed.is_empty(), "{}: {failed:#?}", environment.name);
    }
}
