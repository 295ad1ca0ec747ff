//! The page in a real browser: Chromium, driven from outside, on a real server and real Docker.
//!
//! `./test.sh browser` installs what they need. The names of these tests begin with `browser::`, by which the steps
//! `unit` and `docker` leave them out.

mod accessibility;
mod admin;
mod conversations;
mod docs;
mod fields;
mod files;
mod form;
mod hostile;
mod issuer;
mod keyboard;
mod leaving;
mod letting_in;
mod login;
mod packages;
mod page;
mod preview;
mod proxied;
mod results;
mod runs;
mod trouble;
