//! Proxies before the server that say for whom they ask.
//!
//! Only peers that the server was told of are believed. Each of them adds the address that it was asked from at the end of
//! the list in `X-Forwarded-For` or `Forwarded`, so the list is read from its end, up to the first address that is none of
//! theirs. What stands before that anyone may have written.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::HeaderMap;

/// Addresses that begin alike, such as `10.0.0.0/8`, or a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Bits that count.
    prefix: u32,
}

/// Why a text is no [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an address such as 10.1.2.3, or a network such as 10.0.0.0/8 or fd00::/8")]
pub struct NetworkError;

/// The number that an address is, and its bits. One of IPv4 within IPv6 counts as of IPv4.
fn number(address: IpAddr) -> (u128, u32) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        let ((own, own_bits), (other, other_bits)) = (number(self.address), number(address));
        let differ = own ^ other;
        own_bits == other_bits && differ.checked_shr(own_bits - self.prefix).unwrap_or_default() == 0
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError)?;
        let bits = number(address).1;
        let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| NetworkError)?;
        if prefix > bits { Err(NetworkError) } else { Ok(Self { address, prefix }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Who asks, as far as it can be believed. Where proxies say different things in the two headers, neither counts: one of
/// them may come from the client as it is.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(peer) {
        return peer;
    }
    let told = |name: &str, address: fn(&str) -> Option<IpAddr>| {
        let lines: Option<Vec<&str>> = headers.get_all(name).iter().map(|line| line.to_str().ok()).collect();
        let lines = lines?;
        if lines.is_empty() {
            return None;
        }
        let mut client = peer;
        for hop in lines.iter().flat_map(|line| line.split(',')).rev() {
            // What is no address ends what can be believed.
            let Some(hop) = address(hop.trim()) else { break };
            client = hop.to_canonical();
            if !is_trusted(client) {
                break;
            }
        }
        Some(client)
    };
    match (told("x-forwarded-for", of_list), told("forwarded", of_forwarded)) {
        (Some(client), None) | (None, Some(client)) => client,
        (Some(one), Some(other)) if one == other => one,
        _ => peer,
    }
}

/// An address, perhaps with a port.
fn of_list(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))
}

/// The `for` of a hop: `for=192.0.2.1;proto=https`, `for="[2001:db8::1]:4711"`.
fn of_forwarded(hop: &str) -> Option<IpAddr> {
    let mut pairs = hop.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    of_list(value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn networks_hold_what_begins_alike() {
        for (net, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3", "::ffff:10.1.2.3", "10.1.2.4"),
            ("192.0.2.128/25", "192.0.2.255", "192.0.2.127"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("::/0", "fd12::1", "10.0.0.1"),
        ] {
            assert!(network(net).contains(inside.parse().unwrap()), "{net} {inside}");
            assert!(!network(net).contains(outside.parse().unwrap()), "{net} {outside}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0", "host", "::/129", "10.0.0.0/8/8"] {
            assert_eq!(bad.parse::<Network>(), Err(NetworkError), "{bad}");
        }
    }

    #[test]
    fn proxies_are_believed_up_to_the_first_stranger() {
        type Headers<'a> = &'a [(&'static str, &'a str)];
        let trusted = [network("10.0.0.0/8"), network("::1")];
        let ask = |peer: &str, headers: Headers<'_>| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, value.parse().unwrap());
            }
            client(peer.parse().unwrap(), &map, &trusted).to_string()
        };
        let list = "x-forwarded-for";
        let cases: [(&str, Headers<'_>, &str); 14] = [
            // A stranger is who it is, whatever it says.
            ("192.0.2.9", &[(list, "1.2.3.4")], "192.0.2.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[(list, "192.0.2.7")], "192.0.2.7"),
            ("::ffff:10.0.0.1", &[(list, "192.0.2.7:5100")], "192.0.2.7"),
            // What stands before the first stranger may be made up.
            ("10.0.0.1", &[(list, "1.2.3.4, 192.0.2.7, 10.0.0.2")], "192.0.2.7"),
            ("10.0.0.1", &[(list, "1.2.3.4"), (list, "192.0.2.7")], "192.0.2.7"),
            ("10.0.0.1", &[(list, "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
            ("10.0.0.1", &[(list, "1.2.3.4, nonsense")], "10.0.0.1"),
            ("10.0.0.1", &[(list, "1.2.3.4, unknown, 10.0.0.2")], "10.0.0.2"),
            ("::1", &[(list, "2001:db8::5")], "2001:db8::5"),
            (
                "10.0.0.1",
                &[("forwarded", "for=1.2.3.4, For=\"[2001:db8::1]:4711\";proto=https")],
                "2001:db8::1",
            ),
            ("10.0.0.1", &[("forwarded", "by=1.2.3.4;proto=https")], "10.0.0.1"),
            // One of the two is the client's own.
            ("10.0.0.1", &[(list, "192.0.2.7"), ("forwarded", "for=1.2.3.4")], "10.0.0.1"),
            ("10.0.0.1", &[(list, "192.0.2.7"), ("forwarded", "for=192.0.2.7")], "192.0.2.7"),
        ];
        for (peer, headers, expected) in cases {
            assert_eq!(ask(peer, headers), expected, "{peer} {headers:?}");
        }
    }
}
