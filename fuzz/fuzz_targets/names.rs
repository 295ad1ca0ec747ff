//! Names of files come from callers and programs: an accepted one can only lead into the conversation's directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_code_sandbox::workspace::path::{MAX_PART_BYTES, MAX_PARTS, RelativePath};

fuzz_target!(|name: &str| {
    if let Ok(path) = RelativePath::parse(name) {
        assert_eq!(path.as_str(), name);
        assert!((1..=MAX_PARTS).contains(&path.parts().count()));
        for part in path.parts() {
            assert!((1..=MAX_PART_BYTES).contains(&part.len()), "{part:?}");
            assert!(part != "." && part != ".." && !part.contains(['/', '\0']), "{part:?}");
        }
    }
    if let Ok(path) = RelativePath::parse_for_upload(name) {
        assert_eq!(RelativePath::parse(name), Ok(path), "what is uploaded can be read");
    }
});
