//! Every limit of the server, in one place. Those that a client can meet are in the OpenAPI document.

use std::time::Duration;

use crate::throttle::Allowance;

/// Items on a page of a list, when the client does not say.
pub(crate) const PAGE_SIZE_DEFAULT: u64 = 50;
/// Items on a page of a list, at most.
pub(crate) const PAGE_SIZE_MAX: u64 = 500;
/// Ids on a page of a list of ids, at most.
pub(crate) const IDS_PAGE_SIZE_MAX: u64 = 10_000;
/// Whole documents on a page, at most.
pub(crate) const DOCUMENTS_PAGE_SIZE_MAX: u64 = 200;
/// Item ids of datasets in one answer about several versions.
pub(crate) const DATASET_IDS_MAX: u64 = 200_000;
/// How long the server remembers how far a client has come in the pages of a list.
pub(crate) const WALK_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Clients on their way through pages, all together.
pub(crate) const WALKS_MAX: usize = 8192;
/// Clients on their way through the same list, with the same token or from the same address.
pub(crate) const WALKS_PER_LIST_MAX: usize = 64;
/// Pages of such a way that can be asked for again.
pub(crate) const WALK_PAGES_MAX: usize = 8;
/// ZIP files made at a time, for who has a token.
pub(crate) const EXPORTS_MAX: usize = 64;
/// And for who has none, of a public server.
pub(crate) const OPEN_EXPORTS_MAX: usize = 16;
/// Trajectories in one ZIP file.
pub(crate) const ZIP_TRAJECTORIES_MAX: u64 = 100_000;
/// Bytes of a JSON body.
pub(crate) const JSON_BYTES_MAX: usize = 8 << 20;
/// Levels of a JSON body: the parser's own limit.
pub(crate) const JSON_DEPTH_MAX: usize = 128;
/// Prices on a page.
pub(crate) const PRICES_PAGE_SIZE_MAX: u64 = 10_000;
/// Connections open at a time, where the system allows as many files. When they are used up, the oldest that never showed
/// a token gives way to the next one; if there is none, that one waits.
pub(crate) const CONNECTIONS_MAX: usize = 4096;
/// Requests worked on at a time, beside those below; the next ones wait for their turn.
pub(crate) const REQUESTS_MAX: usize = 128;
/// Of requests with a body from nobody knows whom. They are worked on once the body is there.
pub(crate) const OPEN_REQUESTS_MAX: usize = 32;
/// How long such a body may take to arrive.
pub(crate) const OPEN_BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of all such bodies that are there; beyond that whoever began first gives way.
pub(crate) const OPEN_BODIES_BYTES_MAX: usize = 64 << 20;
/// Uploads that arrive at a time; each holds a thread, of the 512 there are.
pub(crate) const TRANSFERS_MAX: usize = 256;
/// Requests that wait for their turn.
pub(crate) const QUEUE_MAX: usize = 1024;
/// How long they do.
pub(crate) const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take until an answer begins; transfers and registrations may take longer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the database may take to say that it is there.
pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take nothing of an answer that is on its way.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the headers of a request may take to arrive.
pub(crate) const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);
/// Headers of a request, at most.
pub(crate) const HEADERS_MAX: usize = 64;
/// Bytes of all headers of a request, at most.
pub(crate) const HEADER_BYTES_MAX: usize = 128 << 10;
/// How long transfers may go on after the server was told to stop.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);
/// How long a signed address is good for.
pub(crate) const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);
/// Logs of this length and more go to a bucket in parts only.
pub(crate) const BUCKET_PUT_BYTES_MAX: u64 = 5 << 30;
/// Pieces of a streamed body that wait for the client.
pub(crate) const STREAM_PIECES: usize = 4;
/// Bytes of such a piece.
pub(crate) const STREAM_PIECE_BYTES: usize = 128 << 10;
/// How long the next bytes of an upload may take to arrive.
pub(crate) const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an upload that are handed on at a time, or somewhat more. With fewer, waking threads takes its time.
pub(crate) const BODY_BATCH_BYTES: usize = 1 << 20;
/// How long is waited for them.
pub(crate) const BODY_BATCH_WAIT: Duration = Duration::from_millis(5);
/// How many times as many wait to be written.
pub(crate) const BODY_BATCHES: usize = 2;
/// Bytes of a refused upload that are still taken, so that its sender gets to read why.
pub(crate) const REFUSED_BYTES_MAX: u64 = 64 << 20;
/// For how long they are taken.
pub(crate) const REFUSED_TIMEOUT: Duration = Duration::from_secs(10);
/// Failed sign-ins with a name: so many at once, then one whenever one is forgotten.
pub(crate) const LOGIN_FAILURES_OF_A_NAME: Allowance =
    Allowance { failures_max: 10.0, forgotten_after: Duration::from_secs(60) };
/// Failed sign-ins from an address, whatever the name.
pub(crate) const LOGIN_FAILURES_OF_AN_ADDRESS: Allowance =
    Allowance { failures_max: 30.0, forgotten_after: Duration::from_secs(10) };
/// Counters of failed sign-ins, for names and for addresses each.
pub(crate) const LOGIN_COUNTERS: usize = 1 << 14;
/// Passwords checked at a time.
pub(crate) const PASSWORD_CHECKS_MAX: usize = 4;
/// How long a sign-in waits for its turn.
pub(crate) const PASSWORD_CHECK_WAIT: Duration = Duration::from_secs(10);
/// Documents of one registration. The contract has clients send 50.
pub(crate) const REGISTER_DOCUMENTS_MAX: usize = 1000;
/// Rows of a table on a page for people.
pub(crate) const ROWS_OF_A_PAGE: u64 = 50;
/// Runs chosen in a table for one thing to be done with them.
pub(crate) const CHOSEN_MAX: usize = 500;
/// Trajectories that are drawn from on a page; the command line has no such limit.
pub(crate) const SAMPLED_FROM_MAX: usize = 100_000;
/// Versions of a dataset on its page.
pub(crate) const VERSIONS_OF_A_PAGE: u64 = 20;
/// Edits of comments on a run of which the page tells what was there before.
pub(crate) const COMMENT_EDITS_MAX: u64 = 200;
/// Runs of which it is remembered what their trajectories come to.
pub(crate) const SUMMARIES_MAX: usize = 512;
/// How long someone stays signed in on the pages.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Samples that are kept inflated for their readers.
pub(crate) const SPOOLS_MAX: usize = 32;
/// Samples that are inflated at a time.
pub(crate) const SPOOLS_AT_A_TIME: usize = 6;
/// Bytes on disk of all of them together, and of the largest one.
pub(crate) const SPOOL_BYTES_MAX: u64 = 8 << 30;
/// Bytes of their indexes in memory, beyond which the oldest are forgotten.
pub(crate) const INDEX_BYTES_MAX: usize = 128 << 20;
/// How long the first screen of a sample may wait for what it shows.
pub(crate) const FIRST_SCREEN_WAIT: Duration = Duration::from_millis(600);
/// How long it waits for the whole sample, when what it shows is there already.
pub(crate) const WHOLE_SAMPLE_WAIT: Duration = Duration::from_millis(200);
/// Bytes of a piece of a long text on a page.
pub(crate) const MORE_TEXT_BYTES: usize = 64 << 10;
/// Bytes of raw JSON on a page; up to twice as many are laid out.
pub(crate) const RAW_BYTES: usize = 64 << 10;
/// Bytes of an image as it is written in a sample.
pub(crate) const IMAGE_BYTES_MAX: u64 = 24 << 20;
/// Bytes that one request to find something looks through.
pub(crate) const FIND_BYTES: u64 = 64 << 20;
/// Steps that it finds, at most.
pub(crate) const FIND_HITS: usize = 200;
/// Trajectories looked through for the place of one in its list.
pub(crate) const NEIGHBOURS_SEARCHED: u64 = 20_000;
/// So many at a time.
pub(crate) const NEIGHBOURS_PAGE: u64 = 2_000;
/// How often what nobody needs is collected.
pub(crate) const COLLECT_EVERY: Duration = Duration::from_secs(60 * 60);
