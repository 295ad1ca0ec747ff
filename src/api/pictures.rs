//! Pictures of a conversation, in a size that a model's context can bear.

use std::io::Cursor;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, GenericImageView as _, ImageFormat, ImageReader, Limits};
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use crate::conversation::Conversation;
use crate::files::ConversationFiles;
use crate::files::PICTURES;
use crate::links::FileLink;
use crate::run::outcome::RunStatus;

/// Pictures in one answer.
const MAX_PICTURES: usize = 4;
/// Pictures that are named when there are more.
const MAX_NAMES: usize = 20;
/// All pictures of one answer together, in base64.
const MAX_BYTES: usize = 1 << 20;
/// A picture file that is larger than this is not looked at.
const MAX_FILE: u64 = 16 << 20;
/// Side lengths in pixels that are tried, the longest first: models scale down to that one themselves.
const SIDES: &[u32] = &[1568, 1024, 640, 320];
/// A longer side is first reduced to this one by whole pixels: a filter holds sixteen bytes for each pixel of the old
/// width and the new height, which is the most for a picture that is a line.
const FINE: u32 = 2 * SIDES[0];
/// Pixels that are decoded at most: a small file can claim to have billions.
const MAX_PIXELS: u64 = 40_000_000;
/// Memory that decoding may take.
const MAX_MEMORY: u64 = 256 << 20;
/// Quality of JPEG, for what is too large as PNG.
const QUALITY: u8 = 80;
/// How long the pictures of an answer to a run may take.
const PATIENCE_AFTER_RUN: Duration = Duration::from_millis(1500);
/// The same after a time limit: the answer is due three seconds later, of which ending the run may have taken 2.5.
const PATIENCE_AFTER_LIMIT: Duration = Duration::from_millis(400);
/// How long a picture that was asked for by name may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pictures decoded at the same time on the whole server.
static DECODING: Semaphore = Semaphore::const_new(2);

/// How a picture may be shown.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// How much base64 there may be.
    bytes: usize,
    /// Whether one that is too large as PNG may become a JPEG.
    may_be_jpeg: bool,
}

impl Room {
    fn of(bytes: usize) -> Self {
        Self {
            bytes,
            may_be_jpeg: true,
        }
    }

    fn has(self, bytes: &[u8]) -> bool {
        bytes.len().div_ceil(3) * 4 <= self.bytes
    }
}

/// A picture as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Its bytes in base64.
    pub(crate) data: String,
    /// Its type by its content, whatever the file's name says.
    pub(crate) mime_type: &'static str,
    /// Original and new size in pixels, when it was scaled down.
    pub(crate) scaled: Option<[(u32, u32); 2]>,
}

impl Shown {
    /// What to say about a picture that was scaled down.
    pub(crate) fn note(&self) -> Option<String> {
        let [(width, height), (to_width, to_height)] = self.scaled?;
        Some(format!(
            "The original: {width} x {height} pixels, shown above scaled down to {to_width} x {to_height}."
        ))
    }
}

/// The pictures of an answer to a run.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    /// By name.
    pub(crate) shown: Vec<(String, Shown)>,
    /// Names of those that were not ready in time.
    pub(crate) late: Vec<String>,
    /// Names of those beyond what is shown at once.
    pub(crate) more: Vec<String>,
}

impl Pictures {
    /// What to say about those that were scaled down.
    pub(crate) fn scaled(&self) -> Vec<String> {
        let notes = self.shown.iter();
        let notes = notes.filter_map(|(name, shown)| Some(format!("{name:?}: {}", shown.note()?)));
        notes.collect()
    }

    /// What to say about those that are not shown.
    pub(crate) fn missing(&self) -> Vec<String> {
        // Programs choose names: with a line break, one could say more than a name.
        let sentence = |names: &[String], why: &str| {
            (!names.is_empty()).then(|| format!("{why}: {names:?}. read_file shows them."))
        };
        let named = &self.more[..self.more.len().min(MAX_NAMES)];
        [
            sentence(&self.late, "Not ready in time to be shown"),
            sentence(named, "More new pictures than are shown at once"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The first pictures among files of a conversation, each in its share of the room. A file that is gone or no longer a
/// picture is left out.
pub(crate) async fn of_run(
    files: &ConversationFiles,
    id: &Conversation,
    status: RunStatus,
    new: &[&FileLink],
) -> Pictures {
    let mut candidates: Vec<_> = new
        .iter()
        .filter(|file| PICTURES.contains(&file.mime_type.as_str()) && file.size <= MAX_FILE)
        .collect();
    // figure-2 comes before figure-10.
    candidates.sort_by(|one, other| natord::compare(&one.name, &other.name));
    let more = candidates.split_off(candidates.len().min(MAX_PICTURES));
    let due = Instant::now()
        + match status {
            RunStatus::Timeout | RunStatus::EngineLost => PATIENCE_AFTER_LIMIT,
            _ => PATIENCE_AFTER_RUN,
        };
    let mut pictures = Pictures {
        more: more.iter().map(|file| file.name.clone()).collect(),
        ..Pictures::default()
    };
    let mut room = MAX_BYTES;
    for (index, file) in candidates.iter().enumerate() {
        let share = Room::of(room / (candidates.len() - index));
        match in_turn(due, read(files, id, &file.name), share).await {
            Ok(Some((file, shown))) => {
                room -= shown.data.len();
                pictures.shown.push((file.name, shown));
            }
            Ok(None) => {}
            Err(_) => pictures.late.push(file.name.clone()),
        }
    }
    pictures
}

/// A file of a conversation as a picture; `None` when there is none that can be shown, whatever its name says.
///
/// # Errors
/// It was not ready in time: others had their turn.
pub(crate) async fn of_file(
    files: &ConversationFiles,
    id: &Conversation,
    name: &str,
) -> Result<Option<(FileLink, Shown)>, Elapsed> {
    let room = Room::of(MAX_BYTES);
    in_turn(Instant::now() + PATIENCE, read(files, id, name), room).await
}

/// The same for a client that shows PNG and nothing else, in at most `max_bytes` of base64. A picture of another type
/// stays as it is if it fits.
pub(crate) async fn as_png(
    files: &ConversationFiles,
    id: &Conversation,
    name: &str,
    max_bytes: usize,
) -> Option<Shown> {
    let room = Room {
        bytes: max_bytes,
        may_be_jpeg: false,
    };
    let due = Instant::now() + PATIENCE;
    let found = in_turn(due, read(files, id, name), room).await;
    found.ok()?.map(|(_, shown)| shown)
}

async fn read(
    files: &ConversationFiles,
    id: &Conversation,
    name: &str,
) -> Option<(FileLink, Vec<u8>)> {
    let (file, bytes) = files.read_whole(id, name, MAX_FILE).await.ok()?;
    Some((file, bytes?))
}

/// Reads a file and makes it [`fit`] on a thread that may block. Nothing is read before it has its turn.
async fn in_turn(
    due: Instant,
    read: impl Future<Output = Option<(FileLink, Vec<u8>)>>,
    room: Room,
) -> Result<Option<(FileLink, Shown)>, Elapsed> {
    let picture = async {
        let turn = DECODING.acquire().await.ok()?;
        let (file, bytes) = read.await?;
        let fitted = tokio::task::spawn_blocking(move || {
            // Held to the end of the work, even if nobody waits for it any more.
            let _turn = turn;
            fit(&bytes, room)
        });
        let shown = fitted.await.unwrap_or_else(|error| {
            debug!(%error, "a picture was not to be decoded");
            None
        });
        Some((file, shown?))
    };
    timeout_at(due, picture).await
}

/// Makes a file fit into the room: as it is, else smaller. `None` if it is not a picture that can be
/// shown.
fn fit(bytes: &[u8], room: Room) -> Option<Shown> {
    let reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .ok()?;
    let format = reader.format()?;
    let mime_type = match format {
        ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::WebP => {
            format.to_mime_type()
        }
        _ => return None,
    };
    let original = reader.into_dimensions().ok()?;
    if u64::from(original.0) * u64::from(original.1) > MAX_PIXELS {
        return None;
    }
    // In full: what models run on refuses an unfinished picture, and everything else that was said with it.
    let mut picture = decode(bytes, format)?;
    let longest = original.0.max(original.1);
    if longest <= SIDES[0] && room.has(bytes) {
        return Some(Shown {
            data: STANDARD.encode(bytes),
            mime_type,
            scaled: None,
        });
    }
    if longest > FINE {
        picture = picture.thumbnail(FINE, FINE);
    }
    SIDES
        .iter()
        .filter(|side| **side <= longest.max(SIDES[3]))
        .find_map(|side| {
            if longest > *side {
                picture = picture.resize(*side, *side, FilterType::Triangle);
            }
            let (data, mime_type) = encode(&picture, format, room)?;
            Some(Shown {
                data,
                mime_type,
                scaled: Some([original, picture.dimensions()]),
            })
        })
}

fn decode(bytes: &[u8], format: ImageFormat) -> Option<DynamicImage> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    reader.decode().ok()
}

/// As PNG, which keeps lines and letters sharp, or as JPEG where that is too large.
fn encode(
    picture: &DynamicImage,
    format: ImageFormat,
    room: Room,
) -> Option<(String, &'static str)> {
    let fits = |bytes: Vec<u8>, mime_type| {
        room.has(&bytes)
            .then(|| (STANDARD.encode(bytes), mime_type))
    };
    let may_be_png = format != ImageFormat::Jpeg || !room.may_be_jpeg;
    let png = may_be_png.then(|| {
        let mut png = Vec::new();
        picture
            .write_to(&mut Cursor::new(&mut png), ImageFormat::Png)
            .ok()?;
        fits(png, "image/png")
    });
    png.flatten().or_else(|| {
        if !room.may_be_jpeg {
            return None;
        }
        let mut jpeg = Vec::new();
        let encoder = JpegEncoder::new_with_quality(&mut jpeg, QUALITY);
        picture.to_rgb8().write_with_encoder(encoder).ok()?;
        fits(jpeg, "image/jpeg")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut state = 1_u32;
        let picture = image::RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [_, r, g, b] = state.to_be_bytes();
            image::Rgb([r, g, b])
        });
        let mut bytes = Vec::new();
        DynamicImage::from(picture)
            .write_to(&mut Cursor::new(&mut bytes), format)
            .unwrap();
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn pictures_take_turns_as_long_as_they_are_waited_for() {
        use futures::FutureExt as _;
        let all = DECODING.available_permits();
        let turns = DECODING.acquire_many(2).await.unwrap();
        let due = Instant::now() + PATIENCE_AFTER_RUN;
        let early = async { panic!("it is not its turn") };
        assert!(in_turn(due, early, Room::of(1000)).await.is_err());
        assert_eq!(Instant::now(), due);
        drop(turns);
        // What is not a picture is not late.
        let missing = std::future::ready(None);
        assert!(
            in_turn(due, missing, Room::of(1000))
                .await
                .unwrap()
                .is_none()
        );
        let file = FileLink {
            name: String::new(),
            url: String::new(),
            size: 0,
            mime_type: String::new(),
            new: true,
        };
        let picture = std::future::ready(Some((file, noise(1600, 1600, ImageFormat::Png))));
        let due = Instant::now() + PATIENCE_AFTER_RUN;
        // The caller that waited for it has gone away, but it keeps its turn until it is done.
        assert!(
            in_turn(due, picture, Room::of(1000))
                .now_or_never()
                .is_none()
        );
        assert_eq!(DECODING.available_permits(), all - 1);
    }

    #[test]
    fn a_line_takes_little_memory() {
        let peak = || {
            let process = procfs::process::Process::myself().unwrap();
            process.status().unwrap().vmhwm.unwrap()
        };
        let line = DynamicImage::new_luma8(40_000_000, 1);
        let mut bytes = Vec::new();
        line.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
            .unwrap();
        let before = peak();
        let shown = fit(&bytes, Room::of(MAX_BYTES)).unwrap();
        assert_eq!(shown.scaled, Some([(40_000_000, 1), (1568, 1)]));
        assert!(peak() - before < 300 << 10, "{} KiB", peak() - before);
    }

    #[test]
    fn what_is_not_shown_is_named() {
        let pictures = Pictures {
            late: vec!["a\nb.png".to_owned()],
            more: vec!["c.png".to_owned()],
            ..Pictures::default()
        };
        insta::assert_snapshot!(pictures.missing().join("\n"), @r#"
        Not ready in time to be shown: ["a\nb.png"]. read_file shows them.
        More new pictures than are shown at once: ["c.png"]. read_file shows them.
        "#);
        assert!(Pictures::default().missing().is_empty());
    }

    #[test]
    fn small_pictures_stay_as_they_are() {
        for (format, mime_type) in [
            (ImageFormat::Png, "image/png"),
            (ImageFormat::Jpeg, "image/jpeg"),
            (ImageFormat::Gif, "image/gif"),
            (ImageFormat::WebP, "image/webp"),
        ] {
            let bytes = noise(8, 4, format);
            let shown = fit(&bytes, Room::of(MAX_BYTES)).unwrap();
            assert_eq!((shown.mime_type, shown.scaled), (mime_type, None));
            assert_eq!(STANDARD.decode(shown.data).unwrap(), bytes);
        }
    }

    #[test]
    fn large_pictures_become_smaller() {
        let wide = fit(&noise(2000, 10, ImageFormat::Png), Room::of(MAX_BYTES)).unwrap();
        assert_eq!(
            (wide.mime_type, wide.scaled),
            ("image/png", Some([(2000, 10), (1568, 8)]))
        );
        let heavy = fit(&noise(700, 700, ImageFormat::Png), Room::of(300_000)).unwrap();
        assert!(heavy.data.len() <= 300_000, "{}", heavy.data.len());
        assert_eq!(
            (heavy.mime_type, heavy.scaled.unwrap()[0]),
            ("image/jpeg", (700, 700))
        );
    }

    #[test]
    fn what_cannot_be_shown_is_not() {
        assert_eq!(fit(b"no picture", Room::of(MAX_BYTES)), None);
        assert_eq!(fit(b"\x89PNG\r\n\x1a\n", Room::of(MAX_BYTES)), None);
        for format in [ImageFormat::Png, ImageFormat::Gif, ImageFormat::WebP] {
            let whole = noise(40, 40, format);
            assert_eq!(
                fit(&whole[..whole.len() / 2], Room::of(MAX_BYTES)),
                None,
                "{format:?}"
            );
        }
        assert_eq!(fit(&noise(400, 400, ImageFormat::Png), Room::of(100)), None);
    }

    #[test]
    fn a_bomb_is_not_decoded() {
        // The head of a PNG of 60,000 x 60,000 pixels, and nothing else.
        let mut bytes = noise(1, 1, ImageFormat::Png);
        bytes[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&60_000_u32.to_be_bytes());
        assert_eq!(fit(&bytes, Room::of(MAX_BYTES)), None);
    }
}
