//! Style, script and icon: in the program, served under names that change with their content.

use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

/// A file that pages ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asset {
    /// The style of every page.
    BaseCss,
    /// What every page does.
    BaseJs,
    /// What pages with a table to choose from do.
    TableJs,
    /// The style of transcripts.
    TranscriptCss,
    /// The pieces of transcripts.
    PiecesJs,
    /// Going about in them.
    WhereJs,
    /// Finding a text in them.
    FindJs,
    /// Comments on them.
    TalkJs,
    /// What else transcripts do.
    TranscriptJs,
    /// The icon.
    Icon,
}

use Asset::{BaseCss, BaseJs, FindJs, Icon, PiecesJs, TableJs, TalkJs, TranscriptCss, TranscriptJs, WhereJs};

/// A module comes behind those that it imports.
const ALL: [Asset; 10] =
    [BaseCss, Icon, BaseJs, TableJs, TranscriptCss, PiecesJs, WhereJs, FindJs, TalkJs, TranscriptJs];

struct Served {
    path: String,
    etag: String,
    body: Vec<u8>,
}

impl Asset {
    fn source(self) -> (&'static str, &'static str, &'static str) {
        match self {
            BaseCss => ("base", "css", include_str!("../assets/base.css")),
            BaseJs => ("base", "js", include_str!("../assets/base.js")),
            TableJs => ("table", "js", include_str!("../assets/table.js")),
            TranscriptCss => ("transcript", "css", include_str!("../assets/transcript.css")),
            PiecesJs => ("pieces", "js", include_str!("../assets/pieces.js")),
            WhereJs => ("where", "js", include_str!("../assets/where.js")),
            FindJs => ("find", "js", include_str!("../assets/find.js")),
            TalkJs => ("talk", "js", include_str!("../assets/talk.js")),
            TranscriptJs => ("transcript", "js", include_str!("../assets/transcript.js")),
            Icon => ("icon", "svg", include_str!("../assets/icon.svg")),
        }
    }

    /// What an address under `/assets/` stands for.
    pub fn find(path: &str) -> Option<Self> {
        let position = served().iter().position(|served| served.path == path)?;
        Some(ALL[position])
    }

    fn served(self) -> &'static Served {
        let position = ALL.iter().position(|asset| *asset == self).unwrap_or_default();
        &served()[position]
    }

    /// Its address: `/assets/<name>-<hash>.<ending>`.
    pub fn path(self) -> &'static str {
        &self.served().path
    }

    /// For `ETag`, with its quotes.
    pub fn etag(self) -> &'static str {
        &self.served().etag
    }

    /// For `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self.source().1 {
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            _ => "image/svg+xml",
        }
    }

    /// Its bytes.
    pub fn body(self) -> &'static [u8] {
        &self.served().body
    }
}

fn served() -> &'static [Served] {
    static SERVED: OnceLock<Vec<Served>> = OnceLock::new();
    SERVED.get_or_init(|| {
        let mut all: Vec<Served> = Vec::new();
        for asset in ALL {
            let (name, ending, source) = asset.source();
            let mut body = source.to_owned();
            // Modules import each other by the names that they are served under.
            for (imported, served) in ALL.iter().zip(&all) {
                let (name, ending, _) = imported.source();
                body = body.replace(&format!("\"./{name}.{ending}\""), &format!("\"{}\"", served.path));
            }
            let hash: String =
                Sha256::digest(&body).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let path = format!("/assets/{name}-{hash}.{ending}");
            all.push(Served { path, etag: format!("\"{hash}\""), body: body.into_bytes() });
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_found_by_their_addresses() {
        for (position, asset) in ALL.into_iter().enumerate() {
            assert_eq!(Asset::find(asset.path()), Some(asset));
            let text = std::str::from_utf8(asset.body()).unwrap();
            assert!(!text.contains("\"./"), "{} imports what comes behind it", ALL[position].path());
            assert!(!text.contains("://") || asset == Icon, "{asset:?} asks for something elsewhere");
        }
        assert_eq!(Asset::find("/assets/base.css"), None);
    }
}
