//! Changes of `ACCESS_FILE` that leave the rest of it as its operator wrote it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use toml_edit::{
    Array, ArrayOfTables, Datetime, DocumentMut, InlineTable, Item, Table, TableLike, Value, value,
};

use super::AccessError;
use super::file::Book;
use super::secret::TokenHash;
use crate::principal::Name;
use crate::scope::Scopes;

/// A token that is to be added.
pub(super) struct NewToken<'a> {
    pub(super) tenant: &'a Name,
    pub(super) name: &'a Name,
    pub(super) hash: TokenHash,
    pub(super) expires: Option<Datetime>,
    /// What it lets its holder do, if that is not everything.
    pub(super) scopes: Option<Scopes>,
}

/// Changes the file in one step. One that is not there is made, for its owner alone.
pub(super) fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut DocumentMut) -> Result<T, AccessError>,
) -> Result<T, AccessError> {
    let failed = |source| AccessError::Unwritable {
        path: path.to_owned(),
        source,
    };
    // A link stays one.
    let path = match path.canonicalize() {
        Err(error) if path.is_symlink() => return Err(failed(error)),
        path_of_link => path_of_link.unwrap_or_else(|_| path.to_owned()),
    };
    let folder = folder_of(&path);
    // Two commands at the same time take turns.
    let turn = File::open(&folder).map_err(failed)?;
    flock(&turn, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    let text = match super::open(&path) {
        Ok((mut file, _)) => {
            Book::read(&file, &path)?;
            io::Seek::rewind(&mut file).map_err(failed)?;
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(failed)?;
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| AccessError::Form(error.to_string()))?;
    let done = change(&mut document)?;
    let text = document.to_string();
    Book::parse(&text)?;
    replace(&path, &folder, &text).map_err(failed)?;
    Ok(done)
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Writes beside the file, and renames over it: nobody reads half of it.
fn replace(path: &Path, folder: &Path, text: &str) -> io::Result<()> {
    let beside = folder.join(format!(".access.{}", std::process::id()));
    // One of a command that was killed.
    let _ = std::fs::remove_file(&beside);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| keep_owner(path, &file))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// The server that reads it may be another user than whoever runs the command.
fn keep_owner(path: &Path, file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(before) = path.metadata() else {
        return Ok(());
    };
    let now = file.metadata()?;
    if (before.uid(), before.gid()) == (now.uid(), now.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(before.uid()), Some(before.gid()))
}

/// Adds a token, and its tenant if that is new.
pub(super) fn add(document: &mut DocumentMut, token: &NewToken<'_>) -> Result<(), AccessError> {
    let tenants = document
        .entry("tenant")
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let is_inline = matches!(tenants, Item::Value(_));
    let index = tables(tenants)
        .iter()
        .position(|tenant| has_name(*tenant, token.tenant));
    if let Some(index) = index {
        let mut all = tables_mut(tenants);
        return add_to(all.swap_remove(index), token, is_inline);
    }
    let mut tenant = Table::new();
    tenant.insert("name", value(token.tenant.as_str()));
    add_to(&mut tenant, token, is_inline)?;
    match tenants {
        Item::ArrayOfTables(tables) => tables.push(tenant),
        Item::Value(Value::Array(array)) => array.push(tenant.into_inline_table()),
        _ => return Err(no_tables("tenant")),
    }
    Ok(())
}

fn add_to(
    tenant: &mut dyn TableLike,
    token: &NewToken<'_>,
    is_inline: bool,
) -> Result<(), AccessError> {
    let none = if is_inline {
        value(Array::new())
    } else {
        Item::ArrayOfTables(ArrayOfTables::new())
    };
    let tokens = tenant.entry("token").or_insert(none);
    let mut table = Table::new();
    table.insert("name", value(token.name.as_str()));
    table.insert("sha256", value(token.hash.to_string()));
    if let Some(expires) = token.expires {
        table.insert("expires", value(expires));
    }
    if let Some(scopes) = token.scopes {
        let words: Array = scopes.iter().map(|scope| scope.into_str()).collect();
        table.insert("scopes", value(words));
    }
    match tokens {
        Item::ArrayOfTables(tables) => tables.push(table),
        Item::Value(Value::Array(array)) => array.push(table.into_inline_table()),
        _ => return Err(no_tables("token")),
    }
    Ok(())
}

/// Removes the tokens of these hashes from a tenant.
pub(super) fn remove(document: &mut DocumentMut, tenant: &Name, hashes: &[TokenHash]) {
    let is_one = |table: &dyn TableLike| {
        let hash = table.get("sha256").and_then(Item::as_str);
        hash.and_then(|hash| hash.parse().ok())
            .is_some_and(|hash| hashes.contains(&hash))
    };
    let Some(tenants) = document.get_mut("tenant") else {
        return;
    };
    for table in tables_mut(tenants) {
        if !has_name(table, tenant) {
            continue;
        }
        match table.get_mut("token") {
            Some(Item::ArrayOfTables(tables)) => tables.retain(|table| !is_one(table)),
            Some(Item::Value(Value::Array(array))) => array.retain(|value| {
                !value
                    .as_inline_table()
                    .is_some_and(|table| is_one(table as &dyn TableLike))
            }),
            _ => {}
        }
    }
}

fn has_name(table: &dyn TableLike, name: &Name) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name.as_str())
}

/// The tables of an array, however it is written.
fn tables(item: &Item) -> Vec<&dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => tables.iter().map(|table| table as _).collect(),
        Item::Value(Value::Array(array)) => inline(array).map(|table| table as _).collect(),
        _ => Vec::new(),
    }
}

fn inline(array: &Array) -> impl Iterator<Item = &InlineTable> {
    array.iter().filter_map(Value::as_inline_table)
}

fn tables_mut(item: &mut Item) -> Vec<&mut dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => tables.iter_mut().map(|table| table as _).collect(),
        Item::Value(Value::Array(array)) => array
            .iter_mut()
            .filter_map(Value::as_inline_table_mut)
            .map(|table| table as _)
            .collect(),
        _ => Vec::new(),
    }
}

fn no_tables(name: &str) -> AccessError {
    AccessError::Form(format!(
        "`{name}` is not an array of tables: write [[{name}]]"
    ))
}
