use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::RunId;

fn item(id: &str, stratum: &[Option<&str>], group: Option<&str>) -> Item {
    Item {
        id: TrajectoryId::new(id).unwrap(),
        stratum: stratum.iter().map(|value| value.map(str::to_owned)).collect(),
        group: group.map(str::to_owned),
        errored: false,
    }
}

fn request(sizes: &[&str], seed: u64) -> Request {
    Request { sizes: Sizes::parse(sizes, false).unwrap(), stratify_by: Vec::new(), group_by: None, seed }
}

fn ids(part: &Part) -> Vec<&str> {
    part.ids.iter().map(TrajectoryId::as_str).collect()
}

/// `traj-00` to `traj-19`, in five strata.
fn twenty() -> Vec<Item> {
    let stratum = |i: usize| if i < 3 { None } else { Some(["a", "b", "c", "d"][(i * i + i) / 2 % 4]) };
    (0..20).map(|i| item(&format!("traj-{i:02}"), &[stratum(i)], Some(&format!("g{}", i % 6)))).collect()
}

/// Right answers from the Python of the module's documentation.
#[test]
fn a_draw_is_as_documented() {
    let names =
        |numbers: &[usize]| -> Vec<String> { numbers.iter().map(|n| format!("traj-{n:02}")).collect() };
    let drawn = draw(&twenty(), &request(&["5", "3", "_"], 1)).unwrap();
    assert_eq!(ids(&drawn.parts[0]), names(&[12, 1, 4, 2, 3]));
    assert_eq!(ids(&drawn.parts[1]), names(&[0, 9, 17]));
    assert_eq!(ids(&drawn.parts[2]), names(&[11, 15, 5, 6, 7, 13, 10, 16, 19, 14, 8, 18]));
    let names_of_parts: Vec<&str> = drawn.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names_of_parts, ["part-1", "part-2", "rest"]);
    assert_eq!(
        drawn.population.ids_sha256,
        "4114d751d763824ea2d4b4c379a8344f90ca49f03c5a25e47359cca96ecc504a"
    );
    assert!(drawn.strata.is_empty() && drawn.warnings.is_empty());

    let drawn = draw(&twenty(), &request(&["25%", "3"], u64::MAX)).unwrap();
    assert_eq!(ids(&drawn.parts[0]), names(&[18, 11, 8, 3, 16]));
    assert_eq!(ids(&drawn.parts[1]), names(&[12, 7, 4]));
    assert_eq!(drawn.parts.len(), 2);
}

/// Right answers from a second implementation in Python, with fractions and a recursive search.
#[test]
fn a_stratified_draw_is_as_documented() {
    let names =
        |numbers: &[usize]| -> Vec<String> { numbers.iter().map(|n| format!("traj-{n:02}")).collect() };
    let request = Request { stratify_by: vec![Field::Environment], ..request(&["5", "3", "_"], 7) };
    let drawn = draw(&twenty(), &request).unwrap();
    assert_eq!(ids(&drawn.parts[0]), names(&[17, 19, 8, 1, 13]));
    assert_eq!(ids(&drawn.parts[1]), names(&[3, 0, 9]));
    assert_eq!(ids(&drawn.parts[2]), names(&[11, 15, 4, 5, 16, 18, 2, 7, 6, 12, 10, 14]));
    let got: Vec<Vec<usize>> =
        drawn.strata.iter().map(|s| s.shares.iter().map(|share| share.got).collect()).collect();
    assert_eq!(got, [[1, 1, 1], [1, 0, 3], [1, 1, 2], [1, 1, 3], [1, 0, 3]]);
}

#[test]
fn a_grouped_draw_orders_groups() {
    // Right answer from Python, as above: g3, g5, g4, g2, g0, g1.
    let request = Request { group_by: Some(Field::Sample), ..request(&["1", "2", "_"], 3) };
    let drawn = draw(&twenty(), &request).unwrap();
    assert_eq!(ids(&drawn.parts[0]), ["traj-03", "traj-09", "traj-15"]);
    assert_eq!(ids(&drawn.parts[1]), ["traj-05", "traj-11", "traj-17", "traj-04", "traj-10", "traj-16"]);
    assert_eq!((drawn.unit, drawn.population.units, drawn.parts[2].units), (Unit::Groups, 6, 3));
    assert_eq!(drawn.parts[2].ids.len(), 11);
}

#[test]
fn asking_for_too_much_names_the_numbers() {
    let error = |sizes: &[&str]| draw(&twenty(), &request(sizes, 1)).unwrap_err().to_string();
    assert_eq!(
        error(&["10", "50%", "7"]),
        "asked for 27 trajectories (10 + 10 for 50% + 7), and there are 20"
    );
    assert_eq!(
        error(&["18446744073709551615", "18446744073709551615"]),
        "asked for 36893488147419103230 trajectories (18446744073709551615 + 18446744073709551615), and there are 20"
    );
    assert_eq!(error(&["60%", "40.5%"]), "asked for 100.5% of all, which is more than 100%");
    let grouped = Request { group_by: Some(Field::Sample), ..request(&["7"], 1) };
    assert_eq!(draw(&twenty(), &grouped).unwrap_err().to_string(), "asked for 7 groups (7), and there are 6");
    assert_eq!(draw(&[], &request(&["1"], 1)), Err(SamplingError::NoTrajectories));
    let twice = [item("a", &[], None), item("b", &[], None), item("a", &[], None)];
    assert_eq!(
        draw(&twice, &request(&["1"], 1)),
        Err(SamplingError::Duplicate { id: TrajectoryId::new("a").unwrap() })
    );
}

#[test]
fn a_group_across_strata_is_named() {
    let items = [
        item("a", &[Some("web"), None], Some("g")),
        item("b", &[Some("web"), None], Some("h")),
        item("c", &[Some("web"), Some("x")], Some("h")),
    ];
    let mut request = Request {
        stratify_by: vec![Field::Environment, Field::SideTask],
        group_by: Some(Field::Sample),
        ..request(&["1"], 1)
    };
    assert_eq!(
        draw(&items, &request).unwrap_err().to_string(),
        "group \"h\" has trajectories in more than one stratum (web / - and web / x); group by something that does \
         not cross strata, or stratify by less"
    );
    request.stratify_by.clear();
    assert_eq!(draw(&items, &request).unwrap().population.units, 2);
}

#[test]
fn thin_strata_are_told() {
    let mut items: Vec<Item> = (0..18).map(|i| item(&format!("a{i}"), &[Some("a")], None)).collect();
    items.extend((0..2).map(|i| item(&format!("b{i}"), &[Some("b")], None)));
    let mut request = Request { stratify_by: vec![Field::Environment], ..request(&["10", "5", "_"], 1) };
    let drawn = draw(&items, &request).unwrap();
    let exact: Vec<Vec<String>> =
        drawn.strata.iter().map(|s| s.shares.iter().map(|share| share.exact.to_string()).collect()).collect();
    assert_eq!(exact, [["9", "9/2", "9/2"], ["1", "1/2", "1/2"]]);
    assert_eq!(drawn.strata.iter().map(|s| s.is_thin).collect::<Vec<_>>(), [false, true]);
    assert_eq!(drawn.warnings, [Warning::ThinStrata { thin: 1, strata: 2 }]);
    assert_eq!(
        drawn.warnings[0].to_string(),
        "1 of 2 strata are too thin: a part's exact share of them is below 1, so it may have none"
    );

    request.sizes = Sizes::parse(&["10", "_"], false).unwrap();
    assert_eq!(draw(&items, &request).unwrap().warnings, [], "exactly 1 is not thin");
    request.sizes = Sizes::parse(&["19", "_"], false).unwrap();
    assert_eq!(draw(&items, &request).unwrap().warnings, [], "the rest does not count");
}

#[test]
fn empty_parts_and_ungrouped_items_are_told() {
    let drawn = draw(&twenty(), &request(&["1%", "100%", "_"], 1));
    assert_eq!(drawn, Err(SamplingError::SharesOverWhole { share: 101 * 1_000_000_000 }));
    let drawn = draw(&twenty(), &request(&["1%", "20", "_"], 1)).unwrap();
    let empty = |name: &str| Warning::EmptyPart { name: name.to_owned() };
    assert_eq!(drawn.warnings, [empty("part-1"), empty("rest")]);
    assert_eq!(drawn.parts.iter().map(|p| p.ids.len()).collect::<Vec<_>>(), [0, 20, 0]);

    let mut items = twenty();
    items[0].group = None;
    items[19].group = None;
    let request = Request { group_by: Some(Field::Sample), ..request(&["8"], 3) };
    let drawn = draw(&items, &request).unwrap();
    assert_eq!(drawn.warnings, [Warning::Ungrouped { trajectories: 2 }]);
    assert_eq!(drawn.parts[0].ids.len(), 20);
}

#[test]
fn errored_items_are_counted() {
    let mut items = twenty();
    items[12].errored = true;
    items[17].errored = true;
    items[18].errored = true;
    let drawn = draw(&items, &request(&["5", "3"], 1)).unwrap();
    assert_eq!(drawn.population.errored, 3);
    assert_eq!(drawn.parts.iter().map(|part| part.errored).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn items_are_made_of_documents() {
    let mut document: TrajectoryDocument = serde_json::from_value(json!({
        "trajectory_id": "t", "eval_sample_id": "s", "epoch": 2, "name": "n", "number_of_actions": 0,
        "main_task_success": null, "side_task_success": null, "error": {"message": "m"},
        "environment": {"id": "linuxarena/web"}, "main_task": {"id": "crawl"},
    }))
    .unwrap();
    let request =
        Request { stratify_by: STRATA_DEFAULT.to_vec(), group_by: Some(Field::Sample), ..request(&["1"], 1) };
    let expected =
        Item { errored: true, ..item("t", &[Some("linuxarena/web"), Some("crawl"), None], Some("s")) };
    assert_eq!(Item::new(&document, &request), Ok(expected));
    document.trajectory_id = None;
    assert_eq!(Item::new(&document, &request), Err(SamplingError::NoId { sample: "s".to_owned(), epoch: 2 }));
}

#[test]
fn the_manifest_tells_all() {
    let items = [
        item("a", &[Some("x")], None),
        item("b", &[Some("x")], None),
        Item { errored: true, ..item("c", &[None], None) },
    ];
    let request = Request { stratify_by: vec![Field::Environment], ..request(&["2", "_"], 5) };
    let drawn = draw(&items, &request).unwrap();
    let source = Source {
        run: DrawnFrom { run_id: RunId::new("0f3a").unwrap(), log_sha256: "ab".repeat(32) },
        more_runs: Vec::new(),
        filters: vec!["cost>0.5".to_owned()],
    };
    let manifest = Manifest::new(source, &request, &drawn);
    let json = serde_json::to_value(&manifest).unwrap();
    let taken = |part: usize, key: Option<&str>| {
        let of_key =
            |item: &&Item| item.stratum[0].as_deref() == key && drawn.parts[part].ids.contains(&item.id);
        items.iter().filter(of_key).count()
    };
    let sha256 = |part: usize| {
        let mut ids = ids(&drawn.parts[part]);
        ids.sort_unstable();
        let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let errored = |part: usize| usize::from(ids(&drawn.parts[part]).contains(&"c"));
    let expected = json!({
        "format_version": 1, "algorithm": "ct-sample-1", "run_id": "0f3a", "log_sha256": "ab".repeat(32),
        "filters": ["cost>0.5"], "seed": 5, "stratify_by": ["environment"], "group_by": null, "unit": "trajectories",
        "population": {
            "units": 3, "trajectories": 3, "errored": 1,
            // printf 'a\nb\nc\n' | sha256sum
            "ids_sha256": "880553fca8fcea94e325ee2cfb48e5a985cc797f39a14cc6d3cedecfeb2ae4d2",
        },
        "parts": [
            {"name": "part-1", "is_rest": false, "asked": "2", "units": 2, "trajectories": 2, "errored": errored(0),
             "ids_sha256": sha256(0)},
            {"name": "rest", "is_rest": true, "asked": null, "units": 1, "trajectories": 1, "errored": errored(1),
             "ids_sha256": sha256(1)},
        ],
        "strata": [
            {"key": [null], "units": 1, "is_thin": true, "shares": [
                {"exact": "2/3", "asked": 2.0 / 3.0, "got": taken(0, None)},
                {"exact": "1/3", "asked": 1.0 / 3.0, "got": taken(1, None)}]},
            {"key": ["x"], "units": 2, "is_thin": false, "shares": [
                {"exact": "4/3", "asked": 4.0 / 3.0, "got": taken(0, Some("x"))},
                {"exact": "2/3", "asked": 2.0 / 3.0, "got": taken(1, Some("x"))}]},
        ],
        "warnings": ["1 of 2 strata are too thin: a part's exact share of them is below 1, so it may have none"],
    });
    assert_eq!(json, expected);
    assert_eq!(serde_json::from_value::<Manifest>(json).unwrap(), manifest);
    // Of several runs it names the others too; one without any reads as before.
    let more = DrawnFrom { run_id: RunId::new("1f3a").unwrap(), log_sha256: "cd".repeat(32) };
    let several = Manifest { more_runs: vec![more], ..manifest };
    let json = serde_json::to_value(&several).unwrap();
    assert_eq!(json["more_runs"], json!([{"run_id": "1f3a", "log_sha256": "cd".repeat(32)}]));
    assert_eq!(serde_json::from_value::<Manifest>(json).unwrap(), several);
}

/// Over many seeds every trajectory is drawn about equally often, thin stratum or not.
#[test]
fn no_trajectory_is_favoured() {
    const SEEDS: u64 = 2000;
    let items = twenty();
    for stratify_by in [vec![], vec![Field::Environment]] {
        let mut drawn_by_id: BTreeMap<TrajectoryId, u64> = BTreeMap::new();
        for seed in 0..SEEDS {
            let request = Request { stratify_by: stratify_by.clone(), ..request(&["3"], seed) };
            for id in draw(&items, &request).unwrap().parts.remove(0).ids {
                *drawn_by_id.entry(id).or_default() += 1;
            }
        }
        // 300 expected, standard deviation 16.
        for item in &items {
            let drawn = drawn_by_id.get(&item.id).copied().unwrap_or(0);
            assert!((220..=380).contains(&drawn), "{} was drawn {drawn} times of {SEEDS}", item.id);
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    items: Vec<Item>,
    sizes: Vec<Size>,
    keep_rest: bool,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let item = (prop::option::of("[ab]"), "[xyz]", prop::option::of(0_u8..12), any::<bool>());
    let size = prop_oneof![(1_u64..9).prop_map(Size::Count), (1_u64..=40_000_000_000).prop_map(Size::Share)];
    (prop::collection::vec(item, 1..60), prop::collection::vec(size, 1..5), any::<bool>(), any::<u64>())
        .prop_map(|(rows, sizes, keep_rest, seed)| {
            let item =
                |(i, (a, b, group, errored)): (usize, (Option<String>, String, Option<u8>, bool))| Item {
                    id: TrajectoryId::new(format!("t{i}")).unwrap(),
                    // Groups within strata, so that both can be asked for at once.
                    group: group.map(|g| format!("{a:?}{b}{g}")),
                    stratum: vec![a, Some(b)],
                    errored,
                };
            Case { items: rows.into_iter().enumerate().map(item).collect(), sizes, keep_rest, seed }
        })
}

fn name(item: &Item, grouped: bool) -> String {
    item.group.clone().filter(|_| grouped).unwrap_or_else(|| item.id.to_string())
}

proptest! {
    #[test]
    fn parts_are_exact(case in case(), stratified in any::<bool>(), grouped in any::<bool>(), rotate in any::<prop::sample::Index>()) {
        let request = Request {
            sizes: Sizes::new(case.sizes.clone(), case.keep_rest).unwrap(),
            stratify_by: if stratified { vec![Field::Environment, Field::MainTask] } else { vec![] },
            group_by: grouped.then_some(Field::Sample),
            seed: case.seed,
        };
        let names: BTreeSet<String> = case.items.iter().map(|item| name(item, grouped)).collect();
        let asked = size::counts(&case.sizes, names.len());
        let drawn = match draw(&case.items, &request) {
            Ok(drawn) => drawn,
            Err(SamplingError::TooMany { counts, available, .. }) => {
                prop_assert_eq!(available, names.len());
                prop_assert!(counts.iter().sum::<u128>() > names.len() as u128);
                return Ok(());
            }
            Err(SamplingError::SharesOverWhole { share }) => {
                prop_assert!(share > u128::from(size::WHOLE));
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };

        // The same whatever the order.
        let mut other = case.items.clone();
        other.reverse();
        let middle = rotate.index(other.len());
        other.rotate_left(middle);
        prop_assert_eq!(&draw(&other, &request).unwrap(), &drawn);

        // Disjoint, of exact size, groups whole.
        let mut part_of: BTreeMap<&TrajectoryId, usize> = BTreeMap::new();
        for (p, part) in drawn.parts.iter().enumerate() {
            for id in &part.ids {
                prop_assert_eq!(part_of.insert(id, p), None, "{} is in two parts", id);
            }
        }
        let mut parts_of_name: BTreeMap<String, BTreeSet<Option<usize>>> = BTreeMap::new();
        for item in &case.items {
            parts_of_name.entry(name(item, grouped)).or_default().insert(part_of.get(&item.id).copied());
        }
        prop_assert!(parts_of_name.values().all(|parts| parts.len() == 1), "{:?}", parts_of_name);
        let in_part = |p: usize| parts_of_name.values().filter(|parts| parts.contains(&Some(p))).count();
        for (p, part) in drawn.parts.iter().enumerate() {
            prop_assert_eq!(part.units, in_part(p));
            prop_assert_eq!(part.is_rest, p == asked.len());
            let errored = case.items.iter().filter(|i| i.errored && part.ids.contains(&i.id)).count();
            prop_assert_eq!(part.errored, errored);
            if !part.is_rest {
                prop_assert_eq!(part.units as u128, asked[p]);
            }
        }
        prop_assert_eq!(drawn.parts.len(), asked.len() + usize::from(case.keep_rest));
        if case.keep_rest {
            prop_assert_eq!(part_of.len(), case.items.len());
        }

        // Shares off by less than one, and reported as they are.
        prop_assert_eq!(drawn.strata.is_empty(), !stratified);
        for stratum in &drawn.strata {
            let names: BTreeSet<String> =
                case.items.iter().filter(|i| i.stratum == stratum.key).map(|i| name(i, grouped)).collect();
            prop_assert_eq!(stratum.units, names.len());
            for (p, share) in stratum.shares.iter().enumerate() {
                let got = names.iter().filter(|name| parts_of_name[*name].contains(&Some(p))).count();
                prop_assert_eq!(share.got, got);
                let exact = (drawn.parts[p].units * stratum.units) as f64 / drawn.population.units as f64;
                prop_assert!((share.exact.value() - exact).abs() < 1e-9);
                prop_assert!((exact - got as f64).abs() < 1.0 - 1e-9);
            }
        }
    }
}
