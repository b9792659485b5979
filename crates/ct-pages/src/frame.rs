//! What is around every page: head, navigation, who is signed in.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use crate::address::escape;
use crate::asset::Asset;
use crate::text::{plain, text};

/// Light or dark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Theme {
    /// As the system is set.
    #[default]
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

/// Who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// Whether controls that write are shown.
    pub may_write: bool,
}

/// What is said once, after something was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flash {
    /// One sentence.
    pub sentence: String,
    /// It did not work.
    pub is_error: bool,
    /// Runs whose deletion can be undone.
    pub restorable: Vec<String>,
}

/// Who looks at a page, from where and when: what every page needs of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// As chosen.
    pub theme: Theme,
    /// Absent: not signed in.
    pub user: Option<User>,
    /// Goes into every form that writes, as the field `csrf`.
    pub csrf: String,
    /// Path and query of this page: where to come back to.
    pub address: String,
    /// The time that others are relative to.
    pub now: Timestamp,
    /// What was done just before.
    pub flash: Option<Flash>,
}

impl Visit {
    /// Whether controls that write are shown.
    pub fn may_write(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.may_write)
    }

    /// The hidden field of every form that writes.
    pub fn csrf_field(&self) -> Markup {
        html! { input type="hidden" name="csrf" value=(self.csrf); }
    }
}

/// Which part of the navigation a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The first page.
    Home,
    /// Runs.
    Runs,
    /// Trajectories.
    Trajectories,
    /// Datasets.
    Datasets,
    /// Tokens of the user.
    Settings,
    /// Signing in, and errors.
    None,
}

/// A page but for its body.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// For the window; text of others is made plain here.
    pub title: &'a str,
    /// Where it belongs.
    pub section: Section,
    /// Style and scripts beside those of every page, in order.
    pub assets: &'a [Asset],
}

impl Frame<'_> {
    /// The whole page around what is its own.
    pub fn around(&self, visit: &Visit, body: &Markup) -> String {
        let theme = match visit.theme {
            Theme::System => None,
            Theme::Light => Some("light"),
            Theme::Dark => Some("dark"),
        };
        let assets = || [Asset::BaseCss, Asset::BaseJs].into_iter().chain(self.assets.iter().copied());
        let of = |kind: &'static str| assets().filter(move |asset| asset.content_type().starts_with(kind));
        let page = html! {
            (DOCTYPE)
            html lang="en" data-theme=[theme] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (plain(self.title)) " · ct" }
                    link rel="icon" href=(Asset::Icon.path());
                    @for style in of("text/css") { link rel="stylesheet" href=(style.path()); }
                    @for script in of("text/javascript") { script type="module" src=(script.path()) {} }
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    (self.header(visit))
                    main #main tabindex="-1" {
                        @if let Some(flash) = &visit.flash { (shown_flash(flash, visit)) }
                        (body)
                    }
                }
            }
        };
        page.into_string()
    }

    fn header(&self, visit: &Visit) -> Markup {
        let places = [
            (Section::Runs, "/runs", "Runs"),
            (Section::Trajectories, "/trajectories", "Trajectories"),
            (Section::Datasets, "/datasets", "Datasets"),
        ];
        html! {
            header.top {
                a.brand href="/" aria-current=[(self.section == Section::Home).then_some("page")] {
                    span.brand-mark aria-hidden="true" { }
                    "ct"
                }
                nav aria-label="Main" {
                    @for (section, path, name) in places {
                        a href=(path) aria-current=[(self.section == section).then_some("page")] { (name) }
                    }
                }
                div.top-end {
                    button.icon-button type="button" data-theme-switch hidden
                        aria-label="Switch between light and dark" title="Light or dark" { (half_moon()) }
                    button.icon-button type="button" data-help hidden
                        aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" { "?" }
                    @match &visit.user {
                        Some(user) => {
                            a.user href="/settings/tokens" title="Tokens"
                                aria-current=[(self.section == Section::Settings).then_some("page")] {
                                (text(&user.name))
                            }
                            form method="post" action="/logout" {
                                (visit.csrf_field())
                                button.quiet type="submit" { "Sign out" }
                            }
                        }
                        None => @if self.title != "Sign in" {
                            a.user href=(format!("/login?next={}", escape(&visit.address))) { "Sign in" }
                        }
                    }
                }
            }
        }
    }
}

fn shown_flash(flash: &Flash, visit: &Visit) -> Markup {
    html! {
        div.flash.is-error[flash.is_error] role="status" {
            p { (text(&flash.sentence)) }
            @if !flash.restorable.is_empty() && visit.may_write() {
                form method="post" action="/runs/restore" {
                    (visit.csrf_field())
                    @for run in &flash.restorable { input type="hidden" name="run" value=(run); }
                    button.quiet type="submit" { "Undo" }
                }
            }
        }
    }
}

fn half_moon() -> Markup {
    html! {
        svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" {
            circle cx="8" cy="8" r="6.25" fill="none" stroke="currentColor" stroke-width="1.5" {}
            path d="M8 1.75a6.25 6.25 0 0 1 0 12.5z" fill="currentColor" {}
        }
    }
}
