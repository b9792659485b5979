//! Signing in.

use maud::html;

use crate::{Frame, Section, Visit, text};

/// The form, and why the last try failed. `next` is the address to go to afterwards.
pub fn page(visit: &Visit, next: &str, username: &str, failure: Option<&str>) -> String {
    let body = html! {
        div.narrow {
            h1 { "Sign in" }
            @if let Some(failure) = failure {
                p.notice.is-bad role="alert" { (text(failure)) }
            }
            form.form.panel method="post" action="/login" {
                (visit.csrf_field())
                input type="hidden" name="next" value=(next);
                div.field {
                    label for="username" { "User name" }
                    input #username type="text" name="username" value=(username) autocomplete="username"
                        autocapitalize="none" spellcheck="false" required autofocus[username.is_empty()];
                }
                div.field {
                    label for="password" { "Password" }
                    input #password type="password" name="password" autocomplete="current-password" required
                        autofocus[!username.is_empty()];
                }
                div.form-actions { button.primary type="submit" { "Sign in" } }
            }
            p.faint { "No account? Whoever runs this server makes one with " code { "ct users add" } "." }
        }
    };
    Frame { title: "Sign in", section: Section::None, assets: &[] }.around(visit, &body)
}
