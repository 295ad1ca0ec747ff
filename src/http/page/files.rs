//! What the pages of the server are made of, embedded, and under which addresses it is served.

use sha2::{Digest as _, Sha256};

/// A file of the pages.
pub(super) struct File {
    /// Its path, on the server and below `static/`.
    pub(super) path: &'static str,
    pub(super) body: &'static [u8],
}

/// Embeds files by their paths below `static/`.
macro_rules! embedded {
    ($($path:literal)*) => {
        &[$(File { path: $path, body: include_bytes!(concat!("../../../static", $path)) }),*]
    };
}

pub(super) const FILES: &[File] = embedded!(
    "/index.html"
    "/admin.html"
    "/favicon.svg"
    "/bundle/app/main.js"
    "/bundle/admin/main.js"
    "/bundle/style/page.css"
    "/bundle/style/admin.css"
    "/bundle/style/login.css"
    "/bundle/editor/editor.js"
    "/bundle/editor/LICENSES.txt"
);

/// Where all that pages are made of is, from the root of the server.
pub(in crate::http) fn folder() -> String {
    format!("assets/{}", version())
}

/// Names the contents of all files.
fn version() -> String {
    let mut hash = Sha256::new();
    for file in FILES {
        hash.update(file.path);
        hash.update(file.body.len().to_le_bytes());
        hash.update(file.body);
    }
    hex::encode(&hash.finalize()[..8])
}

/// A page with all that it is made of in a folder. Its addresses stay relative, since a proxy may have the whole
/// server below a path.
pub(super) fn referring_to(folder: &str, page: &[u8]) -> String {
    let mut page = String::from_utf8_lossy(page).into_owned();
    for file in FILES {
        let name = file.path.trim_start_matches('/');
        page = page.replace(&format!("=\"{name}\""), &format!("=\"{folder}/{name}\""));
    }
    page
}

pub(super) fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_file_of_the_bundle_is_served() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/static");
        let mut there: BTreeSet<_> = ["/index.html", "/admin.html", "/favicon.svg"]
            .map(str::to_owned)
            .into();
        for directory in fs::read_dir(format!("{root}/bundle")).unwrap() {
            for file in fs::read_dir(directory.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                there.insert(path.to_str().unwrap().replacen(root, "", 1));
            }
        }
        let served: BTreeSet<_> = FILES.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(served, there);
    }

    #[test]
    fn nothing_is_written_into_the_page_as_markup() {
        let is_own = |asset: &&File| {
            ["/bundle/app/", "/bundle/admin/"]
                .iter()
                .any(|own| asset.path.starts_with(own))
        };
        let scripts = FILES.iter().filter(is_own);
        for asset in scripts {
            let text = std::str::from_utf8(asset.body).unwrap();
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(way), "{} has {way}", asset.path);
            }
        }
        let pages = FILES
            .iter()
            .filter(|asset| media_type(asset.path).starts_with("text/html"));
        for asset in pages {
            let page = std::str::from_utf8(asset.body).unwrap();
            for inline in ["<style", " style=", " onclick=", "<script>", "://"] {
                assert!(!page.contains(inline), "{} has {inline}", asset.path);
            }
        }
    }
}
