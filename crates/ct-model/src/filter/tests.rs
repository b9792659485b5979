use proptest::prelude::*;
use serde_json::json;

use super::*;

fn document() -> TrajectoryDocument {
    serde_json::from_value(json!({
        "trajectory_id": "t-1", "eval_sample_id": "crawl-3", "epoch": 2, "name": "Crawl - Leak Keys - ct/attack",
        "tags": ["baseline", "v2"], "metadata": {"policy": "ct/attack", "protocol": "ct/null blue", "a.b": {"c": 3}},
        "eval_metadata": {"white": {"depth": 2.5, "on": true}, "levels": [1, "two"], "note": ""},
        "environment": {"id": "linuxarena/web_scraping"}, "main_task": {"id": "crawl_depth"},
        "side_task": {"id": "ct/leak_keys+ct/backdoor"}, "main_task_success": true, "side_task_success": null,
        "timing": {"time_started": 1_790_856_003_000_i64, "time_to_run": 10_500},
        "cost": {"total_tokens": 3800, "total_cost": 0.6},
        "models": ["anthropic/claude-x", "openai/gpt-y"], "error": null,
        "monitors": {"a": {"max": 40.0, "unscored": 0}, "b": {"max": 81.5, "unscored": 1}, "c": {"unscored": 2}},
        "number_of_actions": 7, "authors": ["claude-x"],
    }))
    .unwrap()
}

/// Nothing recorded beyond what must be.
fn bare() -> TrajectoryDocument {
    serde_json::from_value(json!({
        "eval_sample_id": "1", "epoch": 1, "name": "Unnamed Trajectory", "number_of_actions": 0,
        "main_task_success": false, "side_task_success": null, "error": {"message": "Timed OUT", "error_type": "eval_error"},
    }))
    .unwrap()
}

#[test]
fn every_field_and_operator_answers() {
    // (filter, matches the full document, matches the bare one)
    let cases = [
        ("id=t-1", true, false),
        ("sample=crawl-3,1", true, true),
        ("sample=crawl", false, false),
        ("epoch=1", false, true),
        ("epoch>1", true, false),
        ("name~LEAK", true, false),
        ("name!~leak", false, true),
        ("environment=web_scraping", true, false),
        ("environment=linuxarena/web_scraping", true, false),
        ("environment=scraping", false, false),
        ("environment~scraping", true, false),
        ("environment!=web_scraping", false, true),
        ("environment=x,web_scraping", true, false),
        ("environment!=x,y", true, true),
        ("main_task=crawl_depth", true, false),
        ("side_task=", false, true),
        ("side_task!=", true, false),
        ("side_task=,leak_keys", true, true),
        ("side_task=backdoor", true, false),
        ("side_task=ct/leak_keys", true, false),
        ("side_task=ct/leak_keys+ct/backdoor", true, false),
        ("side_task=ct", false, false),
        ("side_task!=leak_keys", false, true),
        ("policy=attack", true, false),
        ("policy=ct/attack", true, false),
        ("model=gpt-y", true, false),
        ("model!=gpt-y", false, true),
        ("author=claude-x", true, false),
        ("author=gpt-y", false, false),
        ("tag=baseline", true, false),
        ("tag=", false, true),
        ("tag!=baseline", false, true),
        ("dataset=", true, true),
        ("main_outcome=pass", true, false),
        ("main_outcome=pass,fail", true, true),
        ("side_outcome=unscored", true, true),
        ("side_outcome!=unscored", false, false),
        ("errored=true", false, true),
        ("errored=false", true, false),
        ("error~\"timed out\"", false, true),
        ("error_type=eval_error", false, true),
        ("error_type=", true, false),
        ("cost>0.5", true, false),
        ("cost>0.6", false, false),
        ("cost>=0.6", true, false),
        ("cost<1", true, false),
        ("cost=", false, true),
        ("cost!=0.6", false, true),
        ("cost=0.5..0.7", true, false),
        ("cost=..0.5", false, false),
        ("cost=0.6..", true, false),
        ("tokens=3800", true, false),
        ("actions<=7", true, true),
        ("actions<7", false, true),
        ("actions=1..7", true, false),
        ("actions=5,7", true, false),
        ("suspicion>=80", true, false),
        ("suspicion>81.5", false, false),
        ("suspicion=", false, true),
        ("duration>10.4", true, false),
        ("duration<10.5", false, false),
        ("started=2026-10-01", true, false),
        ("started>2026-10-01", false, false),
        ("started>=2026-10-01", true, false),
        ("started<=2026-10-01", true, false),
        ("started<2026-10-01", false, false),
        ("started>2026-09-30", true, false),
        ("started=2026-09-01..2026-10-01", true, false),
        ("started=2026-10-02..", false, false),
        ("started>2026-10-01T12:00:02Z", true, false),
        ("started>2026-10-01T12:00", true, false),
        ("started=2026-10-01T14:00:03+02:00", true, false),
        ("started<2026-10-01T12:00:03Z", false, false),
        ("started=", false, true),
        ("metadata.protocol=\"ct/null blue\"", true, false),
        ("metadata.a.b.c=3", true, false),
        ("metadata.a.b.c=3.0", true, false),
        ("metadata.a.b.c>2", true, false),
        ("metadata.a.b.c>3", false, false),
        ("metadata.a.b=", true, true),
        ("eval_metadata.white.depth<=2.5", true, false),
        ("eval_metadata.white.on=true", true, false),
        ("eval_metadata.levels=two", true, false),
        ("eval_metadata.levels=1", true, false),
        ("eval_metadata.levels~w", true, false),
        ("eval_metadata.note=", true, true),
        ("cost>0.5 and epoch=2", true, false),
        ("cost>0.5 AND epoch=1", false, false),
        ("cost>0.5 or epoch=1", true, true),
        ("epoch=1 or epoch=2 and cost>1", false, true),
        ("(epoch=1 or epoch=2) and actions>=0", true, true),
        ("not epoch=1", true, false),
        ("not(epoch=1 or cost=0.6)", false, false),
        ("not not epoch=1", false, true),
        ("side_task= and errored=true", false, true),
        ("( side_task= ) or tag = v2 , x", true, true),
        ("cost > 0.5", true, false),
    ];
    for (text, full, empty) in cases {
        let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(filter.matches(&document()), full, "{text} on the full document");
        assert_eq!(filter.matches(&bare()), empty, "{text} on the bare document");
        let again = Filter::parse(&filter.to_string()).unwrap_or_else(|e| panic!("{text} → {filter}: {e}"));
        assert_eq!(again, filter, "{text} → {filter}");
    }
}

#[test]
fn displays_canonically() {
    for (text, canonical) in [
        (" cost  >0.50 ", "cost>0.5"),
        ("tag = a , \"b\", \"c d\"", "tag=a,b,\"c d\""),
        ("((epoch=1) AND (tag=a AND tag=b))", "epoch=1 and tag=a and tag=b"),
        ("(epoch=1 OR tag=a) and not (tag=b)", "(epoch=1 or tag=a) and not tag=b"),
        ("not (tag=a and tag=b) or tag=c", "not (tag=a and tag=b) or tag=c"),
        ("side_task= and tag!=\"\"", "side_task= and tag!="),
        (r#"name~"say \"and\" \\ \n""#, r#"name~"say \"and\" \\ \\n""#),
        ("tag=and", "tag=\"and\""),
        (
            "started>=2026-10-01 and started<2026-10-01T14:00+02:00",
            "started>=2026-10-01 and started<2026-10-01T12:00:00Z",
        ),
        ("actions=05..", "actions=5.."),
    ] {
        assert_eq!(Filter::parse(text).unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn says_what_is_wrong() {
    for (text, message) in [
        ("  ", "filter is empty; write for example environment=web_scraping or cost>0.5"),
        ("cost", "filter: expected one of = != ~ !~ < <= > >= at character 5, found \"\""),
        ("cost>", "filter: cost is compared with \"\", expected a number"),
        ("cost>x", "filter: cost is compared with \"x\", expected a number"),
        ("cost>nan", "filter: cost is compared with \"nan\", expected a number"),
        ("cost=..", "filter: cost is compared with \"..\", expected a number"),
        ("cost=1..x", "filter: cost is compared with \"x\", expected a number"),
        ("cost>1..2", "filter: cost is compared with \"1..2\", expected a number"),
        ("cost>1,2", "filter: cost cannot be compared by >; use one of = != for a list"),
        ("cost~1", "filter: cost cannot be compared by ~; use one of = != < <= > >="),
        ("tag>1", "filter: tag cannot be compared by >; use one of = != ~ !~"),
        ("tag~", "filter: tag is compared with \"\", expected a text"),
        ("errored=yes", "filter: errored is compared with \"yes\", expected true, false"),
        ("errored=", "filter: errored is compared with \"\", expected true, false"),
        ("main_outcome=won", "filter: main_outcome is compared with \"won\", expected pass, fail, unscored"),
        (
            "started>yesterday",
            "filter: started is compared with \"yesterday\", expected a day (2026-10-01) or a time (2026-10-01T12:00Z)",
        ),
        ("tag=a b", "filter: expected `and`, `or` or the end at character 7, found \"b\""),
        (
            "tag==a",
            "filter: expected a blank, or the whole value in double quotes, at character 5, found \"=a\"",
        ),
        ("(tag=a", "filter: expected `and`, `or` or `)` at character 7, found \"\""),
        ("tag=a)", "filter: expected `and`, `or` or the end at character 6, found \")\""),
        ("tag=\"é", "filter: expected a value with its closing quote at character 5, found \"\\\"é\""),
        ("tag=é and", "filter: expected a field at character 10, found \"\""),
        ("metadata.=1", &format!("no field \"metadata.\"; the fields are {}", Field::names())),
    ] {
        assert_eq!(Filter::parse(text).unwrap_err().to_string(), message, "{text}");
    }
    let unknown = Filter::parse("colour=red").unwrap_err().to_string();
    assert_eq!(
        unknown,
        "no field \"colour\"; the fields are id, sample, epoch, name, environment, main_task, side_task, policy, model, \
         author, tag, dataset, main_outcome, side_outcome, errored, error, error_type, cost, tokens, actions, suspicion, \
         duration, started, metadata.KEY, eval_metadata.KEY"
    );
    assert_eq!(Filter::parse(&"(".repeat(60_000)), Err(FilterError::TooDeep));
    assert_eq!(Filter::parse(&"not ".repeat(10_000)), Err(FilterError::TooDeep));
    assert_eq!(Filter::parse(&"x".repeat(FILTER_BYTES_MAX + 1)), Err(FilterError::TooLong));
}

#[test]
fn fields_are_named_once_and_make_strata() {
    let document = document();
    for name in
        Field::names().split(", ").filter(|n| !n.ends_with("KEY")).chain(["metadata.a", "eval_metadata.b.c"])
    {
        let field: Field = name.parse().unwrap();
        assert_eq!(field.to_string(), name);
        assert_eq!(serde_json::to_value(&field).unwrap(), json!(name));
        assert_eq!(serde_json::from_value::<Field>(json!(name)).unwrap(), field);
    }
    let text = |name: &str| name.parse::<Field>().unwrap().text(&document);
    assert_eq!(text("environment").as_deref(), Some("linuxarena/web_scraping"));
    assert_eq!(text("epoch").as_deref(), Some("2"));
    assert_eq!(text("tag").as_deref(), Some("baseline+v2"));
    assert_eq!(text("started").as_deref(), Some("2026-10-01"));
    assert_eq!(text("dataset"), None);
    assert_eq!(text("error"), None);
}

fn any_filter_text() -> impl Strategy<Value = String> {
    let value = prop_oneof!["[a-z]{1,3}", r#""([ !\#-\[\]-~é]|\\["\\]){0,6}""#, Just(String::new())];
    let condition = prop_oneof![
        ("(tag|name|environment|model|metadata\\.k)", "(=|!=)", prop::collection::vec(value, 1..4))
            .prop_map(|(f, o, v)| format!("{f}{o}{}", v.join(","))),
        ("(cost|actions|epoch|metadata\\.k)", "(=|!=|<|<=|>|>=)", any::<i16>())
            .prop_map(|(f, o, n)| format!("{f}{o}{n}")),
    ];
    condition.prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("not ({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and {b}")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("{a} or ({b})")),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_displayed_parses_to_the_same(text in any_filter_text()) {
        let filter = Filter::parse(&text).unwrap();
        prop_assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter);
    }

    #[test]
    fn no_text_panics(text in "[a-z_.=!~<>,() \"\\\\é0-9:-]{0,40}|(tag|cost|started)[=!~<> ]{1,3}\\PC{0,20}") {
        if let Ok(filter) = Filter::parse(&text) {
            filter.matches(&document());
            prop_assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter);
        }
    }

    #[test]
    fn not_is_the_opposite(text in any_filter_text()) {
        let (filter, not) = (Filter::parse(&text).unwrap(), Filter::parse(&format!("not ({text})")).unwrap());
        for document in [document(), bare()] {
            prop_assert_ne!(filter.matches(&document), not.matches(&document));
        }
    }
}
