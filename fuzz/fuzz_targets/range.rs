//! Whatever `Range` says, what it selects is within the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_code_sandbox::http::selected;

fuzz_target!(|input: (u64, &str)| {
    let (size, range) = input;
    if let Some((first, last)) = selected(range, size) {
        assert!(first <= last && last < size, "{first}-{last} of {size}");
    }
});
