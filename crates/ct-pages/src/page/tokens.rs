//! `/settings/tokens`: the tokens of the user, sessions among them.

use ct_model::{CreatedToken, Scope, TokenRow};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::part::dash;
use crate::{Frame, Section, Visit, text, time};

/// The page. `current` is the token of this session, `scope` what it may do, `created` a token that was just made.
pub fn page(
    visit: &Visit,
    tokens: &[TokenRow],
    current: &str,
    scope: Scope,
    created: Option<&CreatedToken>,
    server: &str,
) -> String {
    let body = html! {
        div.page-head {
            h1 { "Tokens" }
            @if let Some(user) = &visit.user { span.count { "of " (text(&user.name)) } }
            form.page-actions method="post" action="/logout" {
                (visit.csrf_field())
                button type="submit" { "Sign out" }
            }
        }
        @if let Some(created) = created { (shown_once(created, server)) }
        @if scope >= Scope::Write { (form(visit, scope)) }
        section.section {
            div.section-head { h2 { "Active" } }
            (table(visit, tokens, current, scope, true))
        }
        @if tokens.iter().any(|token| !is_good(token, visit.now)) {
            details.section {
                summary.section-head { h2 { "Expired and revoked" } }
                (table(visit, tokens, current, scope, false))
            }
        }
    };
    Frame { title: "Tokens", section: Section::Settings, assets: &[] }.around(visit, &body)
}

fn is_good(token: &TokenRow, now: Timestamp) -> bool {
    token.revoked_at.is_none() && token.expires_at.is_none_or(|at| at > now)
}

fn shown_once(created: &CreatedToken, server: &str) -> Markup {
    html! {
        div.panel.token-new role="status" {
            h2 { "The new token " (text(&created.details.label)) }
            p { "Copy it now: it is not shown again." }
            input.mono type="text" readonly value=(created.token) aria-label="The new token" data-select-all;
            p.muted { "Use it with the command line:" }
            pre.command { "export CONTROL_TOWER_API_BASE_URL=" (server) "\nexport CONTROL_TOWER_API_TOKEN=" (created.token) }
        }
    }
}

fn form(visit: &Visit, scope: Scope) -> Markup {
    html! {
        form.panel.inline-form method="post" action="/settings/tokens" {
            (visit.csrf_field())
            div.field {
                label for="label" { "What it is for" }
                input #label type="text" name="label" required maxlength="200" placeholder="laptop" autocomplete="off";
            }
            div.field {
                label for="scope" { "What it may do" }
                select #scope name="scope" {
                    @for (word, name) in [(Scope::Read, "Read"), (Scope::Write, "Read and write"), (Scope::Admin, "Administer")] {
                        @if word <= scope {
                            option value=(word.as_str()) selected[word == Scope::Write] { (name) }
                        }
                    }
                }
            }
            div.field {
                label for="days" { "For how long" }
                select #days name="days" {
                    option value="1" { "1 day" }
                    option value="7" { "7 days" }
                    option value="0" selected { "As long as this session" }
                }
            }
            button.primary type="submit" name="action" value="create" { "Make a token" }
            p.hint.faint {
                "A token never outlasts the session that makes it. For one that lasts, use "
                code { "ct login" } " on the machine that needs it."
            }
        }
    }
}

fn table(visit: &Visit, tokens: &[TokenRow], current: &str, scope: Scope, good: bool) -> Markup {
    html! {
        div.table-box {
            div.table-scroll {
                table.stacks {
                    thead { tr {
                        th scope="col" { "For" }
                        th scope="col" { "May" }
                        th.number scope="col" { "Made" }
                        th.number scope="col" { "Last used" }
                        th.number scope="col" { @if good { "Expires" } @else { "Ended" } }
                        @if good { th scope="col" { span.visually-hidden { "Revoke" } } }
                    } }
                    tbody {
                        @for token in tokens.iter().filter(|token| is_good(token, visit.now) == good) {
                            tr {
                                td {
                                    (text(if token.label.is_empty() { "no label" } else { &token.label }))
                                    @if token.token_id == current { " " span.mark.is-good { "this session" } }
                                    span.sub.mono { (token.token_id) }
                                }
                                td data-label="May" { (token.scope.as_str()) }
                                td.number data-label="Made" { (time(token.created_at, visit.now)) }
                                td.number data-label="Last used" { @if let Some(at) = token.last_used_at { (time(at, visit.now)) } @else { (dash()) } }
                                td.number data-label=(if good { "Expires" } else { "Ended" }) {
                                    @match (good, token.revoked_at.or(token.expires_at)) {
                                        (_, Some(at)) => (time(at, visit.now)),
                                        (true, None) => span.faint { "when revoked" },
                                        (false, None) => (dash()),
                                    }
                                }
                                @if good {
                                    td.number {
                                        @if scope >= Scope::Write || token.token_id == current {
                                            form method="post" action="/settings/tokens" {
                                                (visit.csrf_field())
                                                input type="hidden" name="token" value=(token.token_id);
                                                button.danger.is-small type="submit" name="action" value="revoke" { "Revoke" }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
