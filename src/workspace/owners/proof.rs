//! Tries to give files away before anybody depends on it: whether that works is up to capabilities, user namespaces and
//! file systems.

use std::io;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::super::random_name;
use super::{Directories, Owner, UidsError, Users};

/// Does with an empty directory what is done with those of conversations.
pub(in super::super) fn prove(users: &Users, places: Directories<'_>) -> Result<(), UidsError> {
    let Users::Own(own) = users else {
        return Ok(());
    };
    let uids = own.range();
    let name = random_name();
    let tried = [uids.first, uids.last]
        .iter()
        .try_for_each(|uid| try_with(places, &name, *uid));
    // It is there whatever failed; the next start removes what is left.
    let _ = unlinkat(places.private, &name, AtFlags::REMOVEDIR);
    tried.map_err(|(operation, source)| UidsError::Refused {
        uids,
        operation,
        source,
    })
}

fn try_with(
    places: Directories<'_>,
    name: &str,
    uid: u32,
) -> Result<(), (&'static str, io::Error)> {
    let failed = |operation| move |error: Errno| (operation, io::Error::from(error));
    match mkdirat(places.private, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(failed("make a directory")(error)),
    }
    let dir = places.opener.folder(places.private, [name.as_bytes()]);
    let dir = dir.map_err(failed("open a directory of another user"))?;
    let owner = Owner::alone(uid);
    owner
        .take(dir.as_fd())
        .map_err(failed("give a directory to another user"))?;
    let stat = fstat(&dir).map_err(failed("examine a directory"))?;
    if (stat.st_uid, stat.st_gid) != (owner.uid, owner.gid) {
        return Err(failed("give a directory to another user")(Errno::NOTSUP));
    }
    fchmod(&dir, Mode::RWXU).map_err(failed("set the mode of a directory of another user"))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(&dir, "file", flags, Mode::RUSR)
        .and_then(|_| unlinkat(&dir, "file", AtFlags::empty()))
        .map_err(failed("write to a directory of another user"))
}
