//! Names and shapes of the eval-log format, shared by reader and writer.
//!
//! Source: what Inspect 0.3.4 to 0.3.285 write.

/// The final header: the log without samples and reductions. Present only when the run ended.
pub const HEADER: &str = "header.json";
/// Version, eval and plan, there from the first flush on.
pub const JOURNAL_START: &str = "_journal/start.json";
/// Summary rows of one flush: `_journal/summaries/<n>.json`.
pub const JOURNAL_SUMMARIES: &str = "_journal/summaries/";
/// Settings changed while running: `_journal/config_updates/<n>.json`.
pub const JOURNAL_CONFIG_UPDATES: &str = "_journal/config_updates/";
/// All summary rows, present only when the run ended.
pub const SUMMARIES: &str = "summaries.json";
/// Scores reduced over epochs.
pub const REDUCTIONS: &str = "reductions.json";
/// Samples: `samples/<id>_epoch_<epoch>.json`, or chunked in a folder of that name.
pub const SAMPLES: &str = "samples/";
/// The shell of a chunked sample, in its folder.
pub const CHUNKED_SHELL: &str = "sample.json";
/// What macOS puts beside every member it packs.
pub const MACOS_TWINS: &str = "__MACOSX/";

/// Name of a sample's member. The id goes in as it is, so this is never a path of this machine.
pub fn sample_name(id: &str, epoch: u64) -> String {
    format!("{SAMPLES}{id}_epoch_{epoch}.json")
}

/// Takes apart `<id>_epoch_<digits>`; an id may hold `_epoch_` itself.
fn split_epoch(stem: &str) -> Option<(&str, u64)> {
    let (id, epoch) = stem.rsplit_once("_epoch_")?;
    if !epoch.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((id, epoch.parse().ok()?))
}

/// Id and epoch in the name of a whole sample's member.
pub(crate) fn parse_sample_name(name: &str) -> Option<(&str, u64)> {
    split_epoch(name.strip_prefix(SAMPLES)?.strip_suffix(".json")?)
}

/// What names a sample whose member is called otherwise than writers do.
pub(crate) fn odd_sample_name(name: &str) -> Option<&str> {
    name.strip_prefix(SAMPLES)?.strip_suffix(".json").filter(|stem| !stem.is_empty())
}

/// Folder (with its slash), id and epoch in the name of a chunked sample's shell.
pub(crate) fn parse_shell_name(name: &str) -> Option<(&str, &str, u64)> {
    let folder = name.strip_suffix(CHUNKED_SHELL)?;
    let (id, epoch) = split_epoch(folder.strip_prefix(SAMPLES)?.strip_suffix('/')?)?;
    Some((folder, id, epoch))
}

/// The order in which Inspect hands out samples: by epoch, then by id with whole numbers in numeric order. An id of
/// digits counts as a number, whatever its type in the sample.
pub fn sample_order(id: &str, epoch: u64) -> (u64, String) {
    // Padded as Python's `zfill` does it. A number has no leading zeros: `007` is a text.
    let digits = id.strip_prefix('-').unwrap_or(id);
    let number =
        matches!(digits.as_bytes(), [b'0'] | [b'1'..=b'9', ..]) && digits.bytes().all(|b| b.is_ascii_digit());
    let padded = match id.len() - digits.len() {
        0 => format!("{digits:0>20}"),
        _ => format!("-{digits:0>19}"),
    };
    (epoch, if number { padded } else { id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_ordered_as_inspect_does() {
        let mut ids = ["10", "007", "x", "9", "-5", "0", "-12", "", "-", "1x"];
        ids.sort_by_cached_key(|id| sample_order(id, 1));
        assert_eq!(ids, ["", "-", "-5", "-12", "0", "9", "10", "007", "1x", "x"]);
        assert!(sample_order("z", 1) < sample_order("a", 2));
    }

    #[test]
    fn names_are_split_at_the_last_epoch() {
        assert_eq!(parse_sample_name("samples/a/b_epoch_1.json"), Some(("a/b", 1)));
        assert_eq!(parse_sample_name("samples/x_epoch_9_epoch_12.json"), Some(("x_epoch_9", 12)));
        assert_eq!(parse_sample_name("samples/a.json_epoch_1.json"), Some(("a.json", 1)));
        assert_eq!(parse_sample_name("samples/../up_epoch_1.json"), Some(("../up", 1)));
        assert_eq!(parse_sample_name("samples/x_epoch_1/events/0.json"), None);
        assert_eq!(parse_sample_name("samples/x_epoch_.json"), None);
        assert_eq!(parse_shell_name("samples/x_epoch_1/sample.json"), Some(("samples/x_epoch_1/", "x", 1)));
        assert_eq!(parse_shell_name("samples/x_epoch_1/messages/sample.json"), None);
    }
}
