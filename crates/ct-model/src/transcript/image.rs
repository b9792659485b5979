//! What an image is, told by its bytes, before a browser is asked to lay it out.

/// Pixels of an image that is shown, at most: a few kilobytes can hold many more, and take gigabytes to be drawn.
const PIXELS_MAX: u64 = 50_000_000;

/// What kind of image bytes are: the type to serve them as. Nothing else may be served as an image, and none that is too
/// large to be drawn, or does not say how large it is.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    let (kind, (width, height)) = match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => ("image/png", png_size(bytes)?),
        [0xff, 0xd8, 0xff, ..] => ("image/jpeg", jpeg_size(bytes)?),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => ("image/gif", gif_size(bytes)?),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            ("image/webp", webp_size(&bytes[12..])?)
        }
        _ => return None,
    };
    let pixels = u64::from(width) * u64::from(height);
    (1..=PIXELS_MAX).contains(&pixels).then_some(kind)
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let part = bytes.get(at..at + count)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let part = bytes.get(at..at + count)?;
    Some(part.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?))
}

fn gif_size(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?))
}

/// From the header of the first frame; segments before it are skipped.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        (bytes.get(at)? == &0xff).then_some(())?;
        let marker = *bytes.get(at + 1)?;
        match marker {
            // Filled up.
            0xff => at += 1,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            // Without a length.
            0x01 | 0xd0..=0xd8 => at += 2,
            // The picture itself, or its end, before its size.
            0xd9 | 0xda => return None,
            _ => at += 2 + (big(bytes, at + 2, 2)? as usize).max(2),
        }
    }
}

/// From the first chunk of what is in the container.
fn webp_size(chunk: &[u8]) -> Option<(u32, u32)> {
    match chunk.get(..4)? {
        b"VP8 " => Some((little(chunk, 14, 2)? & 0x3fff, little(chunk, 16, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = little(chunk, 9, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((little(chunk, 12, 3)? + 1, little(chunk, 15, 3)? + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
        [&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &size, &[8, 2, 0, 0, 0]].concat()
    }

    #[test]
    fn images_are_told_by_their_bytes() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x0b\x08\0\x10\0\x20\x01\x01\x11\0";
        assert_eq!(image_type(&png(96, 64)), Some("image/png"));
        assert_eq!(image_type(jpeg), Some("image/jpeg"));
        assert_eq!(jpeg_size(jpeg), Some((32, 16)));
        assert_eq!(image_type(b"GIF89a\x02\0\x03\0rest"), Some("image/gif"));
        let webp = |chunk: &[u8]| [&b"RIFF\0\0\0\0WEBP"[..], chunk].concat();
        let lossy = b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x20\0\x10\0";
        assert_eq!(image_type(&webp(lossy)), Some("image/webp"));
        assert_eq!(webp_size(lossy), Some((32, 16)));
        assert_eq!(webp_size(b"VP8L\0\0\0\0\x2f\x1f\xc0\x03\0"), Some((32, 16)));
        assert_eq!(webp_size(b"VP8X\0\0\0\0\0\0\0\0\x1f\0\0\x0f\0\0"), Some((32, 16)));
        for bad in
            [&b"<svg onload=alert(1)>"[..], b"GIF80a", b"", b"<html>", b"RIFF0000WAVE", b"\xff\xd8\xff\xd9"]
        {
            assert_eq!(image_type(bad), None);
        }
    }

    #[test]
    fn images_that_would_fill_the_memory_are_none() {
        for (width, height) in [(60_000, 60_000), (u32::MAX, u32::MAX), (0, 5), (1, 50_000_001)] {
            assert_eq!(image_type(&png(width, height)), None, "{width} {height}");
        }
        assert_eq!(image_type(&png(7_000, 7_000)), Some("image/png"));
        assert_eq!(image_type(&png(7_000, 7_000)[..20]), None);
    }
}
