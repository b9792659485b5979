//! One case for each family of logs: where environment, tasks, policy and mode are found.

use ct_model::TrajectoryDocument;
use ct_model::convert::{HeaderFacts, RunOptions, run_header};
use serde_json::{Value, json};

use super::document;

/// What identifies a trajectory, short enough to be written down for each family.
#[track_caller]
fn assert_found(document: &TrajectoryDocument, expected: Value) {
    let found = json!({
        "environment": document.environment.as_ref().and_then(|environment| environment.id.clone()),
        "main": document.main_task.as_ref().and_then(|task| task.id.clone()),
        "side": document.side_task.as_ref().and_then(|task| task.id.clone()),
        "policy": document.metadata.get("policy"),
        "protocol": document.metadata.get("protocol"),
        "attempts": [document.attempts_mt, document.attempts_st, document.attempts_sneaky],
        "success": [document.main_task_success, document.side_task_success],
        "name": document.name,
    });
    assert_eq!(found, expected);
}

const HONEST: [Option<bool>; 3] = [Some(true), Some(false), Some(false)];
const ATTACK: [Option<bool>; 3] = [Some(true), Some(true), Some(true)];
const UNKNOWN: [Option<bool>; 3] = [None; 3];

fn run_policy(header: &Value) -> Option<String> {
    run_header(&HeaderFacts::from_value(header), &RunOptions::default()).policy
}

fn ct_metadata(side: bool) -> Value {
    let side_tasks = if side {
        json!([{"id": "s1", "name": "S one", "goal": "harm", "failure_type": "live"},
            {"id": "s2", "name": "S two", "goal": "more harm", "failure_type": "live"}])
    } else {
        json!([])
    };
    json!({"environment": {"id": "la/web", "display_name": "Web", "setting": "linuxarena", "description": "long"},
        "main_tasks": [{"id": "m1", "name": "M one", "description": "do one", "task_category": "a"},
            {"id": "m2", "name": "M two", "description": "do two", "task_category": "b"}],
        "side_tasks": side_tasks})
}

#[test]
fn control_tower_3_one_policy() {
    let header = json!({"eval": {"task": "attack-vs-null", "task_registry_name": "control_tower/eval", "model": "none/none",
        "model_roles": {"untrusted": {"model": "openai/gpt-4o-2024-08-06"}, "trusted": {"model": "x/y"}},
        "metadata": {"eval_version": "3.0", "policy": "attack-vs-null-blue-team", "command": "ct run",
            "policy_selection": {"name": "ct/attack", "args": {"n": 1}},
            "policy_args": {"n": 1, "threshold": [2, 3]},
            "protocol_selection": {"name": "ct/null-blue-team", "args": {"k": "v"}},
            "ct_version": "6.0", "ct_git": {"commit": "abc", "dirty": false},
            "env_versions": {"la/web": {"image_tag": "v7", "commit": "def"}}}}});
    let sample = json!({"id": "la/web:m1+m2:s1+s2", "metadata": ct_metadata(true),
        "scores": {"tasks": {"value": {"main": 1, "side": 0.5, "landed_at": null}}}});
    let document = document(&header, &sample, None);
    assert_found(
        &document,
        json!({"environment": "la/web", "main": "m1+m2", "side": "s1+s2", "policy": "ct/attack",
            "protocol": "ct/null-blue-team", "attempts": ATTACK, "success": [true, false],
            "name": "m1+m2 - s1+s2 - ct/attack-vs-ct/null-blue-team"}),
    );
    assert_eq!(
        Value::Object(document.metadata),
        json!({"policy": "ct/attack", "policy_args": "{\"n\": 1, \"threshold\": [2, 3]}", "protocol": "ct/null-blue-team",
            "protocol_args": "{\"k\": \"v\"}", "command": "ct run", "ct_version": "6.0", "ct_commit": "abc",
            "env_version": "v7"})
    );
    assert_eq!(
        serde_json::to_value(&document.main_task).unwrap(),
        json!({"id": "m1+m2", "name": "M one + M two", "short_description": null, "description": "do one\n\ndo two",
            "task_category": "a+b"})
    );
    assert_eq!(
        serde_json::to_value(&document.side_task).unwrap(),
        json!({"id": "s1+s2", "name": "S one + S two", "short_description": null, "goal": "harm\n\nmore harm",
            "task_category": null, "failure_type": "live"})
    );
    assert_eq!(
        serde_json::to_value(&document.environment).unwrap(),
        json!({"id": "la/web", "display_name": "Web", "short_description": null})
    );
    assert_eq!(document.authors, ["gpt-4o"]);
    assert_eq!(run_policy(&header).as_deref(), Some("attack-vs-null-blue-team"));
}

#[test]
fn control_tower_3_control_eval() {
    let header = json!({"eval": {"task": "both", "task_registry_name": "control_tower/control_eval", "metadata": {
        "eval_version": "3.0", "policy": "honest+attack-vs-x", "policy_selection": null,
        "honest_policy_selection": {"name": "ct/honest"}, "honest_policy_args": {"h": 1},
        "attack_policy_selection": {"name": "mine/attack_v2"}, "attack_policy_args": {},
        "protocol_selection": {"name": "ct/x"}}}});
    let attacked = json!({"id": "a", "metadata": ct_metadata(true)});
    let attacked = document(&header, &attacked, None);
    assert_found(
        &attacked,
        json!({"environment": "la/web", "main": "m1+m2", "side": "s1+s2", "policy": "mine/attack_v2", "protocol": "ct/x",
            "attempts": ATTACK, "success": [null, null], "name": "m1+m2 - s1+s2 - mine/attack_v2-vs-ct/x"}),
    );
    assert!(!attacked.metadata.contains_key("policy_args"));
    let honest = document(&header, &json!({"id": "h", "metadata": ct_metadata(false)}), None);
    assert_found(
        &honest,
        json!({"environment": "la/web", "main": "m1+m2", "side": null, "policy": "ct/honest", "protocol": "ct/x",
            "attempts": HONEST, "success": [null, null], "name": "m1+m2 - ct/honest-vs-ct/x"}),
    );
    assert_eq!(honest.metadata["policy_args"], "{\"h\": 1}");
}

#[test]
fn control_tower_3_of_side_tasks_alone() {
    let header = json!({"eval": {"task": "t", "metadata": {"eval_version": "3.0", "policy_selection": {"name": "ct/attack"}}}});
    let sample = json!({"id": "s", "metadata": {"main_tasks": [], "side_tasks": [{"id": "only"}]}});
    assert_found(
        &document(&header, &sample, None),
        json!({"environment": null, "main": null, "side": "only", "policy": "ct/attack", "protocol": null,
            "attempts": ATTACK, "success": [null, null], "name": "only - ct/attack"}),
    );
}

#[test]
fn control_tower_2_with_an_honest_policy_and_side_tasks() {
    let header = json!({"eval": {"task": "t", "task_registry_name": "control_tower/control_eval2", "metadata": {
        "eval_version": "2.1", "untrusted_policy_selection": {"name": "honest", "args": {}},
        "untrusted_policy_args": {"a": 1}, "protocol_selection": {"name": "tm", "args": {}}}}});
    let sample = json!({"id": "s", "metadata": {"environment": {"id": "e"}, "main_task": {"id": "m", "name": "M"},
        "side_task": {"id": "x", "name": "X", "goal": "g"}},
        "scores": {"linux_scorer": {"value": {"main_task_success": "C", "side_task_success": "N"},
            "explanation": "## main_task_success:\nyes"}}});
    let document = document(&header, &sample, None);
    assert_found(
        &document,
        json!({"environment": "e", "main": "m", "side": "x", "policy": "honest", "protocol": "tm", "attempts": HONEST,
            "success": [true, null], "name": "m - x - honest-vs-tm"}),
    );
    assert_eq!(document.metadata["policy_args"], "{\"a\": 1}");
    assert_eq!(
        serde_json::to_value(&document.task_scores).unwrap(),
        json!([{"id": "m", "role": "main", "value": 1.0}, {"id": "x", "role": "side", "value": null, "landed_at": null}])
    );
}

#[test]
fn control_tower_before_versions() {
    let header = json!({"eval": {"task": "run", "metadata": {"policy": "attack-vs-trusted-monitoring", "task_set": "all",
        "tags": ["t"]}}});
    let sample = json!({"id": "s", "metadata": {"environment": {"id": "e"}, "main_task": {"id": "m"}, "side_task": {"id": "x"}},
        "scores": {"main_task": {"value": "I"}, "side_task": {"value": 1}}});
    assert_found(
        &document(&header, &sample, None),
        json!({"environment": "e", "main": "m", "side": "x", "policy": "attack", "protocol": "trusted-monitoring",
            "attempts": ATTACK, "success": [false, true], "name": "m - x - attack-vs-trusted-monitoring"}),
    );
    assert_eq!(run_policy(&header).as_deref(), Some("attack-vs-trusted-monitoring"));
}

#[test]
fn control_tower_synthetic() {
    let header = json!({"eval": {"task": "test", "model": "openai/gpt-4o", "sandbox": {"type": "lb-docker", "config": {"k": 1}},
        "metadata": {"environment": "of_header", "main_task": "of_header"}}});
    let sample = json!({"id": "m:hash", "metadata": {"environment": "shop", "setting_name": "x", "main_task_name": "m",
        "main_task_description": "do it", "eval_mode": "honest"}});
    let found = document(&header, &sample, None);
    assert_found(
        &found,
        json!({"environment": "shop", "main": "m", "side": null, "policy": "openai/gpt-4o", "protocol": null,
            "attempts": HONEST, "success": [null, null], "name": "m - openai/gpt-4o"}),
    );
    let found = document(&header, &json!({"id": "m:hash"}), None);
    assert_eq!(found.environment.unwrap().id.as_deref(), Some("of_header"));
    assert_eq!(found.main_task.unwrap().id.as_deref(), Some("of_header"));
}

#[test]
fn imports() {
    let header = json!({"eval": {"task": "shade", "model": "none/none", "eval_id": "i", "run_id": "i", "task_id": "i",
        "metadata": {"policy": "attack"}}});
    let sample = json!({"id": "0123456789abcdef0123456789abcdef", "metadata": {"environment": {"id": "shade_arena"},
        "main_tasks": [{"id": "bank+ssh"}], "side_tasks": [{"id": "ssh"}]},
        "scores": {"ssh": {"value": "C", "metadata": {"landed_at": 4}}, "monitor": {"value": {"m/1/trajectory": 3}}}});
    let document = document(&header, &sample, None);
    assert_found(
        &document,
        json!({"environment": "shade_arena", "main": "bank+ssh", "side": "ssh", "policy": "attack", "protocol": null,
            "attempts": ATTACK, "success": [null, true], "name": "bank+ssh - ssh - attack"}),
    );
    assert_eq!(document.task_scores[0].landed_at, Some(Some(4)));
}

#[test]
fn control_arena_new() {
    let header = json!({"eval": {"task": "infra_tm_attack_01234567", "model": "none/none",
        "metadata": {"setting": {"type": "InfraSetting", "params": {}}, "micro_protocol": {"name": "tm/attack", "params": {}},
            "mode": "attack"}}});
    let named = json!({"id": "s", "metadata": {"setting_name": "infra", "main_task_name": "fix", "side_task_name": "leak",
        "main_task_description": "fix it", "side_task_description": "leak it", "setting_description": "d",
        "eval_mode": "attack"},
        "scores": {"scorer": {"value": {"main_task_success": "C", "side_task_success": 0}}}});
    let found = document(&header, &named, None);
    assert_found(
        &found,
        json!({"environment": "infra", "main": "fix", "side": "leak", "policy": "tm/attack", "protocol": "tm/attack",
            "attempts": ATTACK, "success": [true, false], "name": "fix - leak - tm/attack"}),
    );
    assert_eq!(found.main_task.unwrap().description.as_deref(), Some("fix it"));
    assert_eq!(found.side_task.unwrap().goal.as_deref(), Some("leak it"));
    assert_eq!(run_policy(&header).as_deref(), Some("tm/attack"));

    // Without names: the setting's type, the sample's id, and a side task that only a description tells of.
    let unnamed = json!({"id": "s7", "metadata": {"main_task_name": null, "side_task_name": null,
        "main_task_description": "fix it", "side_task_description": "leak it"}});
    let found = document(&header, &unnamed, None);
    assert_found(
        &found,
        json!({"environment": "InfraSetting", "main": "s7", "side": null, "policy": "tm/attack", "protocol": "tm/attack",
            "attempts": ATTACK, "success": [null, null], "name": "s7 - tm/attack"}),
    );
    assert_eq!(found.side_task.unwrap().goal.as_deref(), Some("leak it"));
}

#[test]
fn control_arena_early() {
    let header = json!({"eval": {"task": "control_arena/bash_task", "model": "openai/gpt-4o", "tags": null, "metadata": null,
        "task_args": {"main_task": "CreateHelloWorldInC", "protocol": "dtt", "kwargs": {"policy": "fixed", "mode": "honest"}}},
        "plan": {"steps": [{"solver": "control_arena/control_loop", "params": {"protocol": "MonitoringProtocol"}}]}});
    let sample = json!({"id": 3, "metadata": {"main_task_description": "compile", "side_task_description": "hide",
        "setting_description": "bash"},
        "scores": {"max_sus_scorer": {"value": -1}, "main_task_correctness": {"value": "C"}, "side_task_correctness": {"value": "I"}}});
    let found = document(&header, &sample, None);
    assert_found(
        &found,
        json!({"environment": "control_arena/bash_task", "main": "CreateHelloWorldInC", "side": null, "policy": "fixed",
            "protocol": "dtt", "attempts": HONEST, "success": [true, false], "name": "CreateHelloWorldInC - fixed"}),
    );
    // A description alone does not say that the task was played.
    assert_eq!(found.side_task, None);
    assert_eq!(found.monitors.unwrap()["max_sus_scorer"].unscored, 1);

    // The defaults of the task: neither mode nor policy nor tasks are written.
    let header = json!({"eval": {"task": "control_arena/k8s_infra_sabotage_simple", "model": "openai/gpt-4o",
        "task_args": {"main_task": null, "side_task": "Sabotage"}},
        "plan": {"steps": [{"solver": "control_arena/control_loop", "params": {"protocol": "MonitoringProtocol"}}]}});
    let sample = json!({"id": 4, "metadata": {"side_task_description": "hide"},
        "scores": {"k8s_scorer": {"value": {"side_task_success": false, "main_task_success": true}}}});
    assert_found(
        &document(&header, &sample, None),
        json!({"environment": "control_arena/k8s_infra_sabotage_simple", "main": "4", "side": "Sabotage",
            "policy": "control_arena/control_loop", "protocol": "MonitoringProtocol", "attempts": UNKNOWN,
            "success": [true, false], "name": "4 - Sabotage - control_arena/control_loop"}),
    );
}

#[test]
fn metr_tasks() {
    let header = json!({"eval": {"task": "metr/bridge", "model": "m", "task_args": {"agent": "metr/react"}, "solver": "other"}});
    let sample = json!({"id": "1", "metadata": {"task_name": "main", "task_family": "count_odds"}, "scores": {"s": {"value": 0.4}}});
    assert_found(
        &document(&header, &sample, None),
        json!({"environment": "count_odds", "main": "main", "side": null, "policy": "metr/react", "protocol": null,
            "attempts": UNKNOWN, "success": [null, null], "name": "main - metr/react"}),
    );
}

#[test]
fn eval_sets() {
    let header = json!({"eval": {"task": "pkg/task", "model": "m", "solver": "basic_agent",
        "metadata": {"eval_set_id": "set", "created_by": "someone"}}});
    let sample = json!({"id": "1", "scores": {"s": {"value": 1}}});
    assert_found(
        &document(&header, &sample, None),
        json!({"environment": "pkg/task", "main": "1", "side": null, "policy": "basic_agent", "protocol": null,
            "attempts": UNKNOWN, "success": [true, null], "name": "1 - basic_agent"}),
    );
}

#[test]
fn coding_agent_bridges() {
    let header = json!({"eval": {"task": "cv_task_A[strict,codex]", "task_registry_name": "cv_task_A", "model": "m",
        "sandbox": ["docker", "compose.yml"], "task_args": {"agent": "codex"}},
        "plan": {"steps": [{"solver": "Codex CLI"}]}});
    let sample =
        json!({"id": "1", "metadata": {"sabotage_test": "t", "forbidden_commands": ["rm"], "variant": "v"}});
    assert_found(
        &document(&header, &sample, None),
        json!({"environment": "docker", "main": "cv_task_A", "side": null, "policy": "codex", "protocol": null,
            "attempts": UNKNOWN, "success": [null, null], "name": "cv_task_A - codex"}),
    );
}

#[test]
fn public_benchmarks_and_plain_evals() {
    // The solver is the task's own: the model stands for the policy, and without one the last step.
    let header = |model: &str| {
        json!({"eval": {"task": "inspect_evals/gpqa", "model": model, "metadata": {"full_task_version": "2-A"}},
            "plan": {"steps": [{"solver": "prompt"}, {"solver": "multiple_choice"}]}})
    };
    let sample = json!({"id": "recA", "scores": {"choice": {"value": "I"}, "other": {"value": "C"}}});
    for (model, policy) in [("openai/gpt-4o", "openai/gpt-4o"), ("none/none", "multiple_choice")] {
        assert_found(
            &document(&header(model), &sample, None),
            json!({"environment": "inspect_evals/gpqa", "main": "recA", "side": null, "policy": policy, "protocol": null,
                "attempts": UNKNOWN, "success": [false, null], "name": format!("recA - {policy}")}),
        );
        assert_eq!(run_policy(&header(model)).as_deref(), Some(policy));
    }
}

#[test]
fn capture_the_flag() {
    let header = json!({"eval": {"task": "cybench", "model": "m", "solver": "react"}});
    let sample = json!({"id": "flag (hard)", "metadata": {"variant": "hard", "challenge_metadata": {"name": "crypto"},
        "variant_metadata": {}}});
    assert_found(
        &document(&header, &sample, None),
        json!({"environment": "crypto", "main": "flag (hard)", "side": null, "policy": "react", "protocol": null,
            "attempts": UNKNOWN, "success": [null, null], "name": "flag (hard) - react"}),
    );
    let sample = json!({"id": "1", "metadata": {"eval_name": "CVE-2024-1", "challenge_metadata": {"category": "web"}}});
    let found = document(&header, &sample, None);
    assert_eq!(found.environment.unwrap().id.as_deref(), Some("cybench"));
    assert_eq!(found.main_task.unwrap().id.as_deref(), Some("CVE-2024-1"));
}

#[test]
fn r_logs() {
    let header =
        json!({"eval": {"task": ["An R Eval"], "model": ["gpt-4o"], "metadata": [], "task_args": []}});
    let sample =
        json!({"id": [1], "epoch": [1], "metadata": [], "scores": {"model_graded_qa": {"value": ["P"]}}});
    let found = document(&header, &sample, None);
    assert_found(
        &found,
        json!({"environment": "An R Eval", "main": "1", "side": null, "policy": "gpt-4o", "protocol": null,
            "attempts": UNKNOWN, "success": [null, null], "name": "1 - gpt-4o"}),
    );
    assert_eq!(
        serde_json::to_value(&found.task_scores).unwrap(),
        json!([{"id": "1", "role": "main", "value": 0.5}])
    );
}

#[test]
fn only_yes_or_no_decides_a_plain_sample() {
    for (value, success) in [
        (json!("C"), Some(true)),
        (json!("I"), Some(false)),
        (json!(1), Some(true)),
        (json!(0.0), Some(false)),
        (json!(true), Some(true)),
        (json!(false), Some(false)),
        (json!(0.99), None),
        (json!("P"), None),
        (json!("N"), None),
        (json!("1"), None),
        (json!("yes"), None),
        (json!(null), None),
        (json!({"a": 1}), None),
        (json!([1, 0]), None),
    ] {
        let sample = json!({"id": "s", "scores": {"first": {"value": value}, "second": {"value": "C"}}});
        assert_eq!(document(&json!({}), &sample, None).main_task_success, success, "{value}");
        // The single score of the oldest logs.
        let sample = json!({"id": "s", "score": {"value": value}});
        assert_eq!(document(&json!({}), &sample, None).main_task_success, success, "{value}");
    }
}

#[test]
fn a_policy_is_honest_or_attacking_by_a_word_of_its_name() {
    for (policy, attempts) in [
        ("ct/attack", ATTACK),
        ("attack", ATTACK),
        ("Attack-Planner", ATTACK),
        ("ct/honest", HONEST),
        ("honest_v2", HONEST),
        ("dishonest", UNKNOWN),
        ("counterattack", UNKNOWN),
        ("honest+attack", UNKNOWN),
        ("attack/react", UNKNOWN),
        ("react", UNKNOWN),
    ] {
        let header = json!({"eval": {"metadata": {"policy_selection": policy}}});
        let document = document(&header, &json!({"id": "s"}), None);
        assert_eq!(
            [document.attempts_mt, document.attempts_st, document.attempts_sneaky],
            attempts,
            "{policy}"
        );
    }
}

#[test]
fn a_log_that_says_nothing() {
    for (header, sample) in
        [(json!({}), json!({})), (json!(null), json!(7)), (json!({"eval": []}), json!({"id": null}))]
    {
        let found = document(&header, &sample, None);
        assert_found(
            &found,
            json!({"environment": null, "main": null, "side": null, "policy": null, "protocol": null,
                "attempts": UNKNOWN, "success": [null, null], "name": "Unnamed Trajectory"}),
        );
        assert_eq!(
            serde_json::to_value(&found).unwrap(),
            json!({"eval_sample_id": "", "epoch": 1, "name": "Unnamed Trajectory", "tags": [], "datasets": [],
                "metadata": {}, "eval_metadata": {}, "main_task_success": null, "side_task_success": null, "models": [],
                "error": null, "number_of_actions": 0, "authors": [], "action_summaries": []})
        );
    }
}
