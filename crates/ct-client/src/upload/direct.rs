//! Parts that go to the bucket behind a server, by addresses that the server signs for one part each.
//!
//! Nobody's token goes there. The bucket checks the MD5 of every part, and tells it as the tag of what is there, so a later
//! attempt knows which parts to leave out; where a bucket's tags are something else, they are sent again.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use reqwest::Method;
use reqwest::header::HeaderName;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::download::{hex, md5_tag};
use crate::http::{Call, accepts_json};
use crate::{Client, ClientError, Result};

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// Addresses of one part that may turn out to be over.
const ADDRESSES_MAX: u32 = 3;

/// How the parts of an upload go to a bucket.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Direct {
    /// The length of every part but the last.
    pub(super) part_bytes: u64,
    #[serde(default)]
    parts: Vec<PartThere>,
}

#[derive(Debug, Clone, Deserialize)]
struct PartThere {
    number: u64,
    /// Absent: it is there for good.
    #[serde(default)]
    e_tag: Option<String>,
}

impl Direct {
    /// The ranges of the parts that are not there, or have other bytes. `read` gives the bytes of a range.
    pub(super) fn missing(
        &self,
        size_bytes: u64,
        mut read: impl FnMut(u64, u64) -> Result<Bytes>,
    ) -> Result<VecDeque<(u64, u64)>> {
        let mut missing = VecDeque::new();
        let mut start = 0;
        for number in 1.. {
            if start >= size_bytes {
                break;
            }
            let size = self.part_bytes.max(1).min(size_bytes - start);
            let there = match self.parts.iter().find(|part| part.number == number) {
                Some(PartThere { e_tag: None, .. }) => true,
                Some(PartThere { e_tag: Some(tag), .. }) => match md5_tag(tag) {
                    Some(tag) => tag == hex(&Md5::digest(read(start, size)?)),
                    None => false,
                },
                None => false,
            };
            if !there {
                missing.push_back((start, size));
            }
            start += size;
        }
        Ok(missing)
    }
}

impl Client {
    /// Puts the part of an upload that begins at `start`.
    pub(super) fn put_direct(
        &self,
        id: &str,
        direct: &Direct,
        start: u64,
        bytes: &Bytes,
        timeout: Duration,
    ) -> Result<()> {
        #[derive(Deserialize)]
        struct Addresses {
            parts: Vec<Address>,
        }
        #[derive(Deserialize)]
        struct Address {
            url: String,
        }
        let number = start / direct.part_bytes.max(1) + 1;
        let mut last = None;
        for _ in 0..ADDRESSES_MAX {
            let ask = Call::new(Method::POST, self.url(&["uploads", id, "addresses"])).repeatable();
            let answer: Addresses = self.http().json(&accepts_json(ask).json(&json!({"parts": [number]})))?;
            let odd =
                |problem: &str| ClientError::Protocol { server: self.server(), problem: problem.to_owned() };
            let [address] = &answer.parts[..] else {
                return Err(odd("it gives other addresses than it was asked for"));
            };
            let url = Url::parse(&address.url).map_err(|_| odd("the address for a part is none"))?;
            let put = Call::new(Method::PUT, url)
                .anonymous()
                .timeout(timeout)
                .header(CONTENT_MD5, &STANDARD.encode(Md5::digest(bytes)))
                .bytes("application/octet-stream", Bytes::clone(bytes));
            match self.http().done(&put) {
                // Its time was over, or the bytes arrived altered.
                Err(error @ (ClientError::Forbidden { .. } | ClientError::Invalid { status: 400, .. })) => {
                    last = Some(error);
                }
                done => return done,
            }
        }
        Err(last.unwrap_or_else(|| ClientError::Timeout { server: self.server() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_not_there_or_other_are_missing() {
        let bytes = Bytes::from_static(b"0123456789");
        let read = |start: u64, size: u64| {
            let (start, size) = (usize::try_from(start).unwrap(), usize::try_from(size).unwrap());
            Ok(bytes.slice(start..start + size))
        };
        let tag = |piece: &[u8]| Some(format!("\"{}\"", hex(&Md5::digest(piece))));
        let part = |number, e_tag| PartThere { number, e_tag };
        let find = |parts| {
            let direct = Direct { part_bytes: 4, parts };
            direct.missing(10, read).unwrap().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(find(vec![]), [(0, 4), (4, 4), (8, 2)]);
        assert_eq!(find(vec![part(3, tag(b"89")), part(1, None)]), [(4, 4)]);
        assert_eq!(find(vec![part(1, tag(b"0124")), part(2, tag(b"4567"))]), [(0, 4), (8, 2)]);
        assert_eq!(find(vec![part(1, Some("\"kms\"".to_owned()))]), [(0, 4), (4, 4), (8, 2)]);
    }
}
