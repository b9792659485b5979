//! Archives and documents made to harm their reader. Each is read right, or refused by the name of the limit it exceeds;
//! none costs more than its size warrants.

use std::io::Read;
use std::sync::Arc;

use ct_log::archive::{Archive, ArchiveError};
use ct_log::json::{DEPTH_MAX, JsonError, KEY_BYTES_MAX, NUMBER_BYTES_MAX, Reader, VALUE_DEPTH_MAX, parse};
use ct_log::{Defect, Limits, Log, LogError};

use crate::support::zip::{self, DEFLATE, Member, STORED, ZSTD, Zip, member, zip64_extra};
use crate::support::{chain, open_bytes, sample_bytes, sample_bytes_both_ways};

fn small() -> Limits {
    Limits {
        entries_max: 1000,
        directory_bytes_max: 100_000,
        entry_bytes_max: 1 << 20,
        expanded_bytes_max: 4 << 20,
        expansion_ratio_max: 100,
        expansion_free_bytes: 2 << 20,
        zstd_window_log_max: 21,
        header_bytes_max: 64 << 10,
    }
}

fn open(bytes: Vec<u8>, limits: Limits) -> Result<Log, LogError> {
    Log::from_source(Arc::new(bytes), limits)
}

/// Opens an archive that must be refused, and gives the reason.
fn refusal(bytes: Vec<u8>, limits: Limits) -> String {
    match open(bytes, limits) {
        Ok(log) => panic!("accepted, with {} members", log.archive().unwrap().entries().len()),
        Err(e) => chain(&e),
    }
}

/// Ids of the samples.
fn ids(log: &Log) -> Vec<&str> {
    log.samples().unwrap().iter().map(|s| s.id.as_str()).collect()
}

fn read(log: &Log, id: &str) -> Result<Vec<u8>, String> {
    sample_bytes_both_ways(log, log.sample(id, 1).unwrap()).map_err(|e| chain(&e))
}

/// The plain text of a sample from [`zip::sample`].
fn plain(id: &str) -> Vec<u8> {
    zip::sample(id, STORED).data
}

/// The sound log of the other tests is sound.
#[test]
fn archives_made_here_are_sound() {
    for method in [STORED, DEFLATE, ZSTD] {
        for zip64 in [false, true] {
            let members = zip::log(method, &["a", "b"]);
            let log = open(Zip { members, zip64, ..Zip::default() }.bytes(), small()).unwrap();
            assert_eq!(log.header().unwrap().value["status"], "success");
            assert_eq!(ids(&log), ["a", "b"]);
            assert_eq!(read(&log, "a").unwrap(), plain("a"));
            assert_eq!(log.defects(), []);
        }
    }
}

#[test]
fn members_that_share_bytes() {
    // The same data under two names.
    let mut members = zip::log(DEFLATE, &["a", "b"]);
    let at = {
        let alone = zip::zip(members[..1].to_vec());
        memchr::memmem::find(&alone, b"PK\x01\x02").unwrap() as u64
    };
    let twin = Member {
        name: b"samples/twin_epoch_1.json".to_vec(),
        no_local: true,
        offset: Some(at),
        ..members[1].clone()
    };
    members.push(twin);
    let reason = refusal(zip::zip(members), Limits::default());
    assert!(reason.contains("entries_overlap"), "{reason}");

    // One inside the other's data.
    let inner = zip::zip(vec![zip::sample("inner", DEFLATE)]);
    let mut members = zip::log(STORED, &[]);
    let offset =
        zip::zip(members.clone()).len() as u64 - 22 - (46 + 11) + 30 + b"samples/a_epoch_1.json".len() as u64;
    members.push(member("samples/a_epoch_1.json", STORED, &inner));
    members.push(Member { no_local: true, offset: Some(offset), ..zip::sample("inner", DEFLATE) });
    let reason = refusal(zip::zip(members), Limits::default());
    assert!(reason.contains("entries_overlap"), "{reason}");
}

#[test]
fn the_same_row_twice_is_one_member() {
    let mut members = zip::log(ZSTD, &["a"]);
    let row = Member { no_local: true, offset: Some(0), ..members[0].clone() };
    members.push(row);
    let log = open(zip::zip(members), small()).unwrap();
    assert_eq!(log.archive().unwrap().entries().len(), 2);
}

#[test]
fn huge_declared_sizes() {
    let with = |size: u64, extra: Vec<u8>| {
        let mut members = zip::log(DEFLATE, &["a"]);
        members[1].size = size;
        members[1].central_extra = extra;
        zip::zip(members)
    };
    let reason = refusal(with(2 << 20, Vec::new()), small());
    assert!(reason.contains("limit entry_bytes_max (2097152 > 1048576)"), "{reason}");
    for size in [1 << 40, u64::MAX] {
        let reason = refusal(with(u64::from(u32::MAX), zip64_extra(&[size])), Limits::default());
        assert!(reason.contains(&format!("limit entry_bytes_max ({size} > ")), "{reason}");
    }

    // Many members below the limit for one.
    let many: Vec<Member> =
        (0..5).map(|i| Member { size: 1 << 20, ..zip::sample(&i.to_string(), DEFLATE) }).collect();
    let reason = refusal(zip::zip(many.clone()), small());
    assert!(reason.contains("limit expanded_bytes_max (5242880 > 4194304)"), "{reason}");
    let reason = refusal(zip::zip(many[..3].to_vec()), small());
    assert!(reason.contains("limit expansion_ratio_max"), "{reason}");

    // Beyond the file: that member is lost, the others are not.
    for (compressed, extra) in [
        (Some(1 << 30), Vec::new()),
        (Some(u64::MAX), zip64_extra(&[u64::MAX])),
        (Some(u64::MAX), Vec::new()),
    ] {
        let mut members = zip::log(DEFLATE, &["a", "b"]);
        members[1].compressed_size = compressed;
        members[1].central_extra = extra.clone();
        let log = open(zip::zip(members), small()).unwrap();
        assert_eq!(ids(&log), ["b"]);
        assert!(log.defects().iter().any(|d| d.name == "samples/a_epoch_1.json"), "{:?}", log.defects());
    }
}

#[test]
fn offsets_that_lie() {
    for offset in [1, 40, u64::from(u32::MAX) - 1] {
        let mut members = zip::log(DEFLATE, &["a", "b"]);
        members[1].offset = Some(offset);
        match open(zip::zip(members), small()) {
            Err(e) => assert!(chain(&e).contains("entries_overlap"), "{}", chain(&e)),
            Ok(log) => {
                assert_eq!(read(&log, "b").unwrap(), plain("b"));
                if ids(&log).contains(&"a") {
                    assert!(read(&log, "a").unwrap_err().contains("no local header"));
                } else {
                    assert!(!log.defects().is_empty());
                }
            }
        }
    }
}

#[test]
fn sizes_that_are_not_the_real_ones() {
    for method in [STORED, DEFLATE, ZSTD] {
        let real = plain("a").len() as u64;
        for declared in [0, 1, real - 1, real + 1, real * 2] {
            let mut members = zip::log(method, &["a", "b"]);
            members[1].size = declared;
            let log = open(zip::zip(members), small()).unwrap();
            let reason = read(&log, "a").unwrap_err();
            assert!(reason.contains(&format!("bytes instead of {declared}")), "{reason}");
            assert_eq!(read(&log, "b").unwrap(), plain("b"));
        }
        // Compressed bytes cut short.
        let mut members = zip::log(method, &["a", "b"]);
        members[1].compressed_size = Some(members[1].data.len() as u64 - 5);
        let log = open(zip::zip(members), small()).unwrap();
        let reason = read(&log, "a").unwrap_err();
        assert!(reason.contains("damaged") || reason.contains("instead of"), "{reason}");
    }
}

#[test]
fn a_wrong_checksum_is_never_overread() {
    for method in [STORED, DEFLATE, ZSTD] {
        let mut members = zip::log(method, &["a"]);
        members[1].crc32 ^= 1;
        let log = open(zip::zip(members), small()).unwrap();
        let mut reader = log.read_sample(log.sample("a", 1).unwrap()).unwrap();
        let mut bytes = Vec::new();
        assert!(reader.read_to_end(&mut bytes).unwrap_err().to_string().contains("CRC mismatch"));
        // Asked again, it does not change its mind.
        assert!(reader.read_to_end(&mut bytes).unwrap_err().to_string().contains("CRC mismatch"));
    }
}

/// A bomb that declares little is cut off there; what was handed out is bounded by what was declared.
#[test]
fn bombs_that_declare_little() {
    let zeros = vec![b' '; 50 << 20];
    for method in [DEFLATE, ZSTD] {
        let mut bomb = member("samples/bomb_epoch_1.json", method, &zeros);
        assert!(bomb.data.len() < 100_000);
        bomb.size = 1000;
        let mut members = zip::log(method, &["b"]);
        members.push(bomb);
        let log = open(zip::zip(members), small()).unwrap();
        let mut reader = log.read_sample(log.sample("bomb", 1).unwrap()).unwrap();
        let mut bytes = Vec::new();
        let error = reader.read_to_end(&mut bytes).unwrap_err();
        assert!(error.to_string().contains("bytes instead of 1000"), "{error}");
        assert!(bytes.len() <= 1000);
        assert_eq!(read(&log, "b").unwrap(), plain("b"));
    }
}

#[test]
fn bombs_that_declare_the_truth() {
    let zeros = vec![b' '; 3 << 20];
    for method in [DEFLATE, ZSTD] {
        let limits = Limits { entry_bytes_max: 8 << 20, ..small() };
        let bomb = member("samples/bomb_epoch_1.json", method, &zeros);
        let reason = refusal(zip::zip(vec![bomb.clone()]), limits.clone());
        assert!(reason.contains("limit expansion_ratio_max"), "{reason}");
        // The same beside enough honest bytes.
        let mut noise = vec![0; 60_000];
        let mut seed = 1_u32;
        for byte in &mut noise {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (seed >> 24) as u8;
        }
        let log = open(zip::zip(vec![bomb, member("noise", STORED, &noise)]), limits).unwrap();
        assert_eq!(read(&log, "bomb").unwrap(), zeros);
    }
}

#[test]
fn a_header_that_is_a_bomb_is_not_held_in_memory() {
    let mut members = zip::log(DEFLATE, &["a"]);
    members[0] = member("header.json", DEFLATE, &vec![b' '; 100 << 10]);
    let log = open(zip::zip(members), small()).unwrap();
    let header = log.header().unwrap();
    assert!(header.inferred);
    assert!(log.defects().iter().any(|d| d.reason.contains("header_bytes_max")), "{:?}", log.defects());
    assert_eq!(read(&log, "a").unwrap(), plain("a"));
}

#[test]
fn a_zstd_frame_with_a_large_window_is_refused() {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(24).unwrap();
    std::io::Write::write_all(&mut encoder, &plain("a")).unwrap();
    let data = encoder.finish().unwrap();
    let mut members = zip::log(ZSTD, &["a"]);
    members[1].data = data;
    let log = open(zip::zip(members.clone()), small()).unwrap();
    let reason = read(&log, "a").unwrap_err();
    assert!(reason.contains("damaged zstd data"), "{reason}");
    assert_eq!(read(&open(zip::zip(members), Limits::default()).unwrap(), "a").unwrap(), plain("a"));
}

#[test]
fn zstd_frames_and_rubbish_behind_the_data() {
    // Frames in sequence are one member; anything else behind them is not.
    let mut frames = zstd::stream::encode_all(&b"{\"id\":\"a\","[..], 3).unwrap();
    frames.extend(zstd::stream::encode_all(&b"\"epoch\":1}"[..], 3).unwrap());
    let mut sample = member("samples/a_epoch_1.json", ZSTD, b"{\"id\":\"a\",\"epoch\":1}");
    sample.data = frames.clone();
    let log = open(zip::zip(vec![sample.clone()]), small()).unwrap();
    assert_eq!(read(&log, "a").unwrap(), b"{\"id\":\"a\",\"epoch\":1}");
    sample.data.extend(b"rubbish");
    let log = open(zip::zip(vec![sample]), small()).unwrap();
    assert!(read(&log, "a").is_err());
}

#[test]
fn very_many_members() {
    // Python writes a plain end record up to 65535; beyond that it is read because nobody believes the count.
    for (count, zip64) in [(65_535, false), (65_536, true), (70_000, false)] {
        let members =
            (0..count).map(|i| member(format!("samples/{i}_epoch_1.json"), STORED, b"{}")).collect();
        let log = open(Zip { members, zip64, ..Zip::default() }.bytes(), Limits::default()).unwrap();
        assert_eq!(log.samples().unwrap().len(), count);
        assert_eq!(log.defects(), []);
        assert_eq!(read(&log, &(count - 1).to_string()).unwrap(), b"{}");
    }
    let members: Vec<Member> = (0..1001).map(|i| member(format!("{i}"), STORED, b"")).collect();
    let bytes = zip::zip(members);
    let reason = refusal(bytes.clone(), small());
    assert!(reason.contains("limit entries_max (1001 > 1000)"), "{reason}");
    // The same without a directory.
    let end = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
    let reason = refusal(bytes[..end].to_vec(), small());
    assert!(reason.contains("limit entries_max (1001 > 1000)"), "{reason}");
    let reason = refusal(bytes, Limits { directory_bytes_max: 10_000, ..small() });
    assert!(reason.contains("limit directory_bytes_max"), "{reason}");
}

#[test]
fn rows_beyond_the_file_count_as_members_too() {
    let mut members = zip::log(STORED, &["a"]);
    members.extend((0..1000).map(|i| Member {
        no_local: true,
        offset: Some(1 << 30),
        ..member(format!("{i}"), STORED, b"")
    }));
    let reason = refusal(zip::zip(members), small());
    assert!(reason.contains("limit entries_max"), "{reason}");
}

#[test]
fn end_records_in_comments_and_data() {
    let fake = zip::zip(Vec::new());
    assert_eq!(fake.len(), 22);
    let mut other = zip::zip(vec![zip::sample("other", STORED)]);
    let embedded = other.clone();
    other.extend(b"behind");

    // In the comment, where some readers stop searching.
    for comment in [b"PK\x05\x06".to_vec(), [b"PK\x05\x06".to_vec(), vec![0xff; 30]].concat()] {
        let members = zip::log(DEFLATE, &["a"]);
        let log = open(Zip { members, comment, ..Zip::default() }.bytes(), small()).unwrap();
        assert_eq!((ids(&log), log.defects()), (vec!["a"], vec![]));
    }
    // A whole empty archive as the comment: its end record stands at the very end of the file.
    let members = zip::log(DEFLATE, &["a"]);
    let log = open(Zip { members, comment: fake.clone(), ..Zip::default() }.bytes(), small()).unwrap();
    assert_eq!(ids(&log), ["a"]);
    // In the data.
    for inner in [&fake, &embedded, &other] {
        let mut members = zip::log(STORED, &["a"]);
        members.push(member("samples/zip_epoch_1.json", STORED, inner));
        members.push(zip::sample("b", STORED));
        let bytes = zip::zip(members);
        let log = open(bytes.clone(), small()).unwrap();
        assert_eq!(ids(&log), ["a", "b", "zip"]);
        assert_eq!(&read(&log, "zip").unwrap(), inner);
        // And with the true directory gone: the inner one must not be taken for it.
        let end =
            memchr::memmem::rfind(&bytes, b"PK\x01\x02\x14\x00\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00")
                .unwrap();
        let cut = bytes[..end.min(bytes.len() - 100)].to_vec();
        let log = open(cut, small()).unwrap();
        assert_eq!(ids(&log), ["a", "b", "zip"]);
    }
}

#[test]
fn an_end_record_whose_fields_hold_its_signature() {
    // Size and offset spell the signature: not a place to start over.
    let mut bytes = zip::zip(zip::log(DEFLATE, &["a"]));
    let end = bytes.len() - 22;
    bytes[end + 4..end + 8].copy_from_slice(b"PK\x05\x06");
    let log = open(bytes, small()).unwrap();
    assert_eq!((ids(&log), log.defects()), (vec!["a"], vec![]));
}

#[test]
fn zip64_locators_that_lie() {
    for value in [0, 1, 1 << 40, u64::MAX] {
        for field in [40, 48] {
            let members = zip::log(DEFLATE, &["a"]);
            let mut bytes = Zip { members, zip64: true, ..Zip::default() }.bytes();
            let record = bytes.len() - 22 - 20 - 56;
            bytes[record + field..record + field + 8].copy_from_slice(&value.to_le_bytes());
            let log = open(bytes, small()).unwrap();
            assert_eq!(ids(&log), ["a"], "found without the directory");
        }
    }
    // The locator's signature in a member's name, right before a plain end record of 65535 members.
    let mut members: Vec<Member> = (0..65_534).map(|i| member(format!("{i}"), STORED, b"")).collect();
    members.push(member(b"samples/PK\x06\x07000000000000_epoch_1.json", STORED, b"{}"));
    let log = open(zip::zip(members), Limits::default()).unwrap();
    assert_eq!(log.archive().unwrap().entries().len(), 65_535);
}

#[test]
fn bytes_before_the_archive() {
    for offsets_from_file in [false, true] {
        for zip64 in [false, true] {
            let members = zip::log(ZSTD, &["a"]);
            let before = b"#!/bin/sh\nexit\n".to_vec();
            let bytes = Zip { members, before, offsets_from_file, zip64, ..Zip::default() }.bytes();
            let log = open(bytes, small()).unwrap();
            assert_eq!((ids(&log), log.defects()), (vec!["a"], vec![]));
            assert_eq!(read(&log, "a").unwrap(), plain("a"));
        }
    }
}

#[test]
fn members_that_cannot_be_read() {
    let mut members = zip::log(DEFLATE, &["enc", "lzma", "b"]);
    members[1].flags = 1;
    members[2].method = 14;
    let bytes = zip::zip(members);
    let end = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
    let log = open(bytes.clone(), small()).unwrap();
    assert!(read(&log, "enc").unwrap_err().contains("it is encrypted"));
    assert!(read(&log, "lzma").unwrap_err().contains("compression method 14 is not supported"));
    assert_eq!(read(&log, "b").unwrap(), plain("b"));
    // Without the directory they are reported and left out.
    let log = open(bytes[..end].to_vec(), small()).unwrap();
    assert_eq!(ids(&log), ["b"]);
    let reasons: Vec<String> = log.defects().iter().map(Defect::to_string).collect();
    assert!(reasons.iter().any(|r| r.contains("enc_epoch_1") && r.contains("encrypted")), "{reasons:?}");
    assert!(reasons.iter().any(|r| r.contains("lzma_epoch_1") && r.contains("method 14")), "{reasons:?}");
}

#[test]
fn hostile_names() {
    let names: [&[u8]; 9] = [
        b"samples/../../../etc/passwd_epoch_1.json",
        b"samples//root/x_epoch_1.json",
        b"samples/C:\\x_epoch_1.json",
        b"samples/nul\0nul_epoch_1.json",
        b"samples/\xff\xfe_epoch_1.json",
        b"samples/\x1b[31m\r\n_epoch_1.json",
        "samples/\u{202e}gpj_epoch_1.json".as_bytes(),
        b"samples/<script>_epoch_1.json",
        b"samples/_epoch_1.json",
    ];
    let mut members = zip::log(ZSTD, &[]);
    members.extend(names.iter().map(|name| member(name, ZSTD, b"{}")));
    members.push(member("../outside", ZSTD, b"x"));
    members.push(member("/absolute", ZSTD, b"x"));
    let log = open(zip::zip(members), small()).unwrap();
    assert_eq!(log.samples().unwrap().len(), names.len());
    for sample in log.samples().unwrap() {
        assert_eq!(sample_bytes(&log, sample).unwrap(), b"{}");
    }
    for id in [
        "../../../etc/passwd",
        "/root/x",
        "C:\\x",
        "nul\0nul",
        "\u{fffd}\u{fffd}",
        "\x1b[31m\r\n",
        "<script>",
        "",
    ] {
        assert!(log.sample(id, 1).is_ok(), "{id:?}");
    }
    let defects = log.defects();
    assert!(defects.iter().any(|d| d.name == "../outside") && defects.iter().any(|d| d.name == "/absolute"));
    // Shown, a name does nothing to a terminal.
    assert!(defects.iter().all(|d| !d.to_string().contains(['\x1b', '\r', '\n', '\0'])));
}

/// Names that are no UTF-8 grow when they are read as such; sizes must not be taken from them.
#[test]
fn names_that_are_no_utf_8_do_not_overlap() {
    let mut members = zip::log(STORED, &[]);
    members.push(member([b"samples/".as_slice(), &[0x81; 60], b"_epoch_1.json"].concat(), STORED, b""));
    members.push(zip::sample("b", STORED));
    let log = open(zip::zip(members), small()).unwrap();
    assert_eq!(read(&log, "b").unwrap(), plain("b"));
}

#[test]
fn epochs_that_are_no_numbers() {
    let mut members = zip::log(STORED, &[]);
    for epoch in ["99999999999999999999999", "-1", "1.5", "x", "\u{661}", "+1"] {
        members.push(member(format!("samples/a_epoch_{epoch}.json"), STORED, b"{}"));
    }
    let log = open(zip::zip(members), small()).unwrap();
    // Inspect takes every member among the samples for one, so these are listed by their names, once each.
    let all = ["+1", "-1", "1.5", "99999999999999999999999", "x", "\u{661}"];
    assert_eq!(ids(&log), all.map(|epoch| format!("a_epoch_{epoch}")));
    for (sample, epoch) in log.samples().unwrap().iter().zip(all) {
        assert_eq!(sample.member_name(), format!("samples/a_epoch_{epoch}.json"));
        let mut json = String::new();
        log.read_sample(sample).unwrap().read_to_string(&mut json).unwrap();
        assert_eq!(json, "{}");
    }
}

#[test]
fn without_a_directory_headers_may_claim_anything() {
    // A torn archive with headers in the middle of it that claim the largest sizes there are.
    let liar = |size: u64, compressed: u64, extra: Vec<u8>| Member {
        size,
        compressed_size: Some(compressed),
        local_extra: extra,
        ..member("samples/liar_epoch_1.json", STORED, b"")
    };
    for liar in [
        liar(u64::MAX, u64::MAX, zip64_extra(&[u64::MAX, u64::MAX])),
        liar(u64::MAX, 0, zip64_extra(&[u64::MAX])),
        liar(0, u64::MAX, zip64_extra(&[u64::MAX - 50])),
        liar(1 << 20, 1 << 20, Vec::new()),
        liar(u64::MAX, u64::MAX, Vec::new()),
    ] {
        let mut members = zip::log(DEFLATE, &["a", "b"]);
        members.insert(2, liar);
        let mut bytes = zip::zip(members);
        bytes.truncate(memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap());
        let log = open(bytes, small()).unwrap();
        assert_eq!(ids(&log), ["a", "b"]);
        let defects = log.defects();
        assert!(defects.iter().any(|d| d.name == "samples/liar_epoch_1.json"), "{defects:?}");
    }
}

#[test]
fn data_descriptors() {
    // Streaming writers put sizes behind the data. With a directory that changes nothing; without one they are searched.
    let mut members = zip::log(DEFLATE, &["a", "b"]);
    for m in &mut members {
        m.descriptor = true;
    }
    let mut bytes = zip::zip(members);
    for _ in 0..2 {
        let log = open(bytes.clone(), small()).unwrap();
        assert_eq!(ids(&log), ["a", "b"]);
        assert_eq!(read(&log, "a").unwrap(), plain("a"));
        bytes.truncate(memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap_or(0));
    }
}

/// Headers that promise a descriptor which never comes: each could cost a search through the rest of the file.
#[test]
fn a_file_of_nothing_but_headers_is_given_up() {
    for flags in [0_u8, 8] {
        let mut header = [0; 30];
        header[..4].copy_from_slice(b"PK\x03\x04");
        header[6] = flags;
        header[8] = if flags == 0 { 99 } else { 8 };
        let bytes = header.repeat(200_000);
        match open(bytes, Limits::default()) {
            Ok(log) => panic!("accepted with {} members", log.archive().unwrap().entries().len()),
            Err(e) => assert!(matches!(e, LogError::NotALog { .. }), "{}", chain(&e)),
        }
        let (_, defects) = Archive::open(Arc::new(header.repeat(200_000)), Limits::default()).unwrap();
        assert!(defects.len() < 20_000, "{}", defects.len());
        assert!(defects.iter().any(|d| d.reason.contains("too many damaged members")));
    }
}

#[test]
fn a_bomb_without_a_directory_costs_one_member() {
    for method in [DEFLATE, ZSTD] {
        let mut members = zip::log(method, &["a", "b"]);
        members.insert(2, member("samples/bomb_epoch_1.json", method, &vec![b' '; 3 << 20]));
        let mut bytes = zip::zip(members);
        bytes.truncate(memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap());
        let log = open(bytes, small()).unwrap();
        assert_eq!(ids(&log), ["a", "b"]);
        assert!(
            log.defects().iter().any(|d| d.reason.contains("limit entry_bytes_max")),
            "{:?}",
            log.defects()
        );
    }
}

#[test]
fn chunked_samples_that_multiply() {
    let refs = vec!["[0,1000000]"; 900].join(",");
    let shell = format!(r#"{{"id":"a","epoch":1,"message_refs":[{refs}]}}"#);
    let text = format!(r#"["{}"]"#, "x".repeat(2000));
    let members = vec![
        member("samples/a_epoch_1/sample.json", DEFLATE, shell.as_bytes()),
        member("samples/a_epoch_1/messages/0.json", DEFLATE, text.as_bytes()),
    ];
    let log = open(zip::zip(members), small()).unwrap();
    let reason = read(&log, "a").unwrap_err();
    assert!(reason.contains("limit entry_bytes_max"), "{reason}");
}

#[test]
fn chunked_samples_of_too_many_pieces() {
    // Few chunks and many references, and few references over many chunks.
    for (refs, chunks) in [(1100, 1), (20, 100)] {
        let refs = vec!["[0,1000000]"; refs].join(",");
        let shell = format!(r#"{{"id":"a","epoch":1,"message_refs":[{refs}]}}"#);
        let mut members = vec![member("samples/a_epoch_1/sample.json", DEFLATE, shell.as_bytes())];
        members.extend(
            (0..chunks).map(|i| member(format!("samples/a_epoch_1/messages/{i}.json"), STORED, b"[{}]")),
        );
        let log = open(zip::zip(members), small()).unwrap();
        let reason = read(&log, "a").unwrap_err();
        assert!(reason.contains("limit entries_max"), "{reason}");
    }
}

#[test]
fn chunked_samples_with_references_to_nowhere() {
    let shell =
        br#"{"id":"a","epoch":1,"message_refs":[[0,2],[5,3],[-1,1],[1.5,9e300],["x",1],[3],7,[1,2]]}"#;
    let members = vec![
        member("samples/a_epoch_1/sample.json", DEFLATE, shell),
        member("samples/a_epoch_1/messages/0.json", DEFLATE, br#"[{"role":"user"},{"role":"tool"}]"#),
        member("samples/a_epoch_1/messages/9.json", DEFLATE, br#"[{"role":"system"}]"#),
        member("samples/a_epoch_1/events/x.json", DEFLATE, b"[1]"),
    ];
    let log = open(zip::zip(members), small()).unwrap();
    let value = parse(&read(&log, "a").unwrap()).unwrap();
    let roles: Vec<&str> =
        value["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles[..2], ["user", "tool"]);
    assert_eq!(value["events"], serde_json::json!([]));
    assert_eq!(value["events_data"]["messages"].as_array().unwrap().len(), 3);
}

#[test]
fn what_is_no_log() {
    let reason = |bytes: &[u8]| match open_bytes(bytes.to_vec()) {
        Ok(_) => panic!("accepted"),
        Err(e) => chain(&e),
    };
    assert_eq!(reason(b""), "the file is empty");
    assert!(reason(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n").contains("git lfs pull"));
    assert!(reason(b"hello, world").contains("neither a JSON document nor an archive"));
    assert!(reason(&zip::zip(Vec::new())).contains("without any member of an eval log"));
    assert!(reason(&zip::zip(vec![member("a.txt", STORED, b"x")])).contains("without any member"));
    assert!(reason(&[0; 70_000]).contains("neither"));
    let log = open_bytes(b"{\"a\": 1}".to_vec()).unwrap();
    assert!(chain(&log.header().unwrap_err()).contains("a JSON document without `eval`"));
}

#[test]
fn documents_nested_too_deep() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let objects = |n: usize| format!("{}1{}", r#"{"a":"#.repeat(n), "}".repeat(n));
    for make in [&deep as &dyn Fn(usize) -> String, &objects] {
        assert!(parse(make(VALUE_DEPTH_MAX - 1).as_bytes()).is_ok());
        assert!(matches!(parse(make(100_000).as_bytes()), Err(JsonError::TooDeep { .. })));
        assert!(matches!(Reader::new(make(DEPTH_MAX + 1).as_bytes()).skip(), Err(JsonError::TooDeep { .. })));
        // In a log: the header that holds it is not read, and its samples are.
        let mut members = zip::log(DEFLATE, &["a"]);
        let header = format!(r#"{{"version":2,"status":"success","eval":{{}},"x":{}}}"#, make(3000));
        members[0] = member("header.json", DEFLATE, header.as_bytes());
        let log = open(zip::zip(members), small()).unwrap();
        assert!(log.header().unwrap().inferred);
        assert!(log.defects().iter().any(|d| d.reason.contains("header.json")), "{:?}", log.defects());
        assert_eq!(read(&log, "a").unwrap(), plain("a"));
        // In a document.
        let document =
            format!(r#"{{"eval":{{}},"samples":[{{"id":1,"epoch":1}},{{"id":2,"x":{}}}]}}"#, make(3000));
        let log = open_bytes(document.into_bytes()).unwrap();
        assert_eq!(ids(&log), ["1"]);
        assert!(log.defects().iter().any(|d| d.reason.contains("nested deeper")), "{:?}", log.defects());
    }
    // Deep but within the limit, the depth of one value does not add to that of the next.
    let many = format!("[{}]", vec![deep(DEPTH_MAX - 1); 5].join(","));
    assert!(Reader::new(many.as_bytes()).skip().is_ok());
}

#[test]
fn keys_and_numbers_that_are_too_long() {
    let key = |n: usize| format!(r#"{{"{}":1}}"#, "k".repeat(n));
    assert_eq!(parse(key(KEY_BYTES_MAX).as_bytes()).unwrap().as_object().unwrap().len(), 1);
    assert!(matches!(parse(key(KEY_BYTES_MAX + 1).as_bytes()), Err(JsonError::TooLong { .. })));
    let escaped = format!(r#"{{"{}":1}}"#, "\\n".repeat(KEY_BYTES_MAX));
    assert!(matches!(parse(escaped.as_bytes()), Err(JsonError::TooLong { .. })));

    let digits = |n: usize| "9".repeat(n);
    assert!(parse(digits(NUMBER_BYTES_MAX).as_bytes()).unwrap().is_null(), "beyond all doubles");
    assert!(matches!(parse(digits(NUMBER_BYTES_MAX + 1).as_bytes()), Err(JsonError::TooLong { .. })));
    let mut reader = Reader::new(digits(NUMBER_BYTES_MAX + 1).into_bytes().leak() as &[u8]);
    assert!(matches!(reader.number(), Err(JsonError::TooLong { .. })));
    // A number is skipped whatever its length.
    assert!(Reader::new(digits(10_000_000).as_bytes()).skip().is_ok());
}

#[test]
fn errors_name_the_member() {
    let mut members = zip::log(DEFLATE, &["a"]);
    members[1].crc32 ^= 1;
    let log = open(zip::zip(members), small()).unwrap();
    let entry = log.archive().unwrap().get("samples/a_epoch_1.json").unwrap();
    match log.archive().unwrap().read_to_vec(entry) {
        Err(ArchiveError::Member { name, offset, .. }) => {
            assert_eq!((name.as_str(), offset), ("samples/a_epoch_1.json", entry.header_offset));
        }
        other => panic!("{other:?}"),
    }
}
