//! Keeps the records of runs in a results store, which is one SQLite file. Each record is stored once.
//!
//! This crate stores and returns records; `report` interprets them. A record is stored as JSON. Values that many
//! records share (the stack, the device, the environment, the limits) are stored once, so a store is smaller than the
//! record files.

mod add;
mod read;

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use self::{
    add::{AddStatistics, AddTransaction, SEPARATOR},
    read::{RunConfiguration, StoredRun},
};

/// Version of the database tables. It increases when the meaning of a table changes.
pub const VERSION: u32 = 1;

/// Application id in the header of the SQLite files that rocrepro writes: "rocr".
const APPLICATION_ID: u32 = 0x726f_6372;

/// Time between two attempts to use a store that another process writes to.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of attempts to use a store that another process writes to: 5 s when reading, 120 s when writing.
const READ_ATTEMPTS: i32 = 100;
const WRITE_ATTEMPTS: i32 = 2400;

const TABLES: &str = "
-- JSON that records share.
CREATE TABLE part (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
-- A run: its plan and its configuration.
CREATE TABLE run (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, opened TEXT NOT NULL, trials INTEGER NOT NULL REFERENCES part,
    began TEXT NOT NULL, ground TEXT, words TEXT
);
-- The runs that a run contains: itself, and its shards if it was merged.
CREATE TABLE member (name TEXT PRIMARY KEY, run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE trial (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, number INTEGER NOT NULL, of_case TEXT NOT NULL, date TEXT NOT NULL,
    passed INTEGER NOT NULL, stack INTEGER NOT NULL REFERENCES part, device INTEGER NOT NULL REFERENCES part,
    environment INTEGER NOT NULL REFERENCES part, limits INTEGER NOT NULL REFERENCES part, rest TEXT NOT NULL,
    UNIQUE (run, number)
);
CREATE INDEX trial_of_case ON trial (of_case);
";

/// Fields of a record whose values many records share. Each value is stored as a row of the table `part`.
const SHARED_FIELDS: [&str; 4] = ["stack", "device", "environment", "limits"];

/// An open results store.
#[derive(Debug)]
pub struct Store {
    db: Connection,
}

/// Reason why a results store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsStoreError {
    /// The file does not exist. The value is its path.
    #[error("store `{}` does not exist; `rocrepro records store add` creates one", .0.display())]
    Missing(PathBuf),
    /// The file is not a results store. The file, whose path is the value, was not changed.
    #[error("`{}` is not a results store of rocrepro", .0.display())]
    Foreign(PathBuf),
    /// The version of the tables is not one that this rocrepro can read. The file was not changed.
    #[error("`{}` has tables of version {found}; this rocrepro knows version {VERSION}", path.display())]
    Version {
        /// Path of the store.
        path: PathBuf,
        /// Version of the tables in the file.
        found: u32,
    },
    /// The store could not be read or created.
    #[error("cannot open the store `{}`: {source}", path.display())]
    File {
        /// Path of the store.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Another process was writing to the store for longer than this process may wait.
    #[error(
        "another process is writing to the store, and waiting for it took too long; try again after it has ended"
    )]
    Busy,
    /// SQLite reported an error.
    #[error("cannot use the store: {0}")]
    Sqlite(rusqlite::Error),
    /// The records that should be added cannot be read.
    #[error("the records cannot be read: {0}")]
    Records(io::Error),
    /// A record in the store is not valid.
    #[error("the store contains an invalid record: {0}")]
    Record(#[from] report::RecordError),
    /// A JSON value in the store is not valid.
    #[error("the store contains an invalid record: {0}")]
    Json(#[from] serde_json::Error),
    /// The store contains a run with the same name but another plan. The value is the name.
    #[error("the store already contains run {0} with another plan")]
    OtherPlan(String),
    /// A merged run lists a shard as its part, but does not contain the trials of the shard. The values are the names
    /// of the shard's run and of the merged run.
    #[error("run {1} lists run {0} as a shard, but does not plan the same trials")]
    NoPart(String, String),
    /// Some shards of a merged run are already in the store, as parts of another merged run. The values are the names
    /// of the two merged runs.
    #[error(
        "the store already contains some shards of run {0} as parts of another merged run, {1}"
    )]
    Merged(String, String),
}

impl From<rusqlite::Error> for ResultsStoreError {
    fn from(error: rusqlite::Error) -> ResultsStoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ResultsStoreError::Busy,
            _ => ResultsStoreError::Sqlite(error),
        }
    }
}

/// Function that reports that this process waits. It is static, because SQLite calls a plain function without data.
static WAIT_CALLBACK: OnceLock<fn()> = OnceLock::new();

/// Sets the function that is called each time this process begins to wait for another process that writes to a store.
/// Only the first call has an effect.
pub fn set_wait_callback(tell: fn()) {
    let _ = WAIT_CALLBACK.set(tell);
}

/// Waits 50 ms before the next attempt. Returns false without waiting if `most` attempts have been made.
fn wait_for_retry(attempt: i32, most: i32) -> bool {
    if attempt >= most {
        return false;
    }
    // Waits of less than half a second are not reported, because any other writer may take that long.
    if attempt == 10
        && let Some(tell) = WAIT_CALLBACK.get()
    {
        tell();
    }
    std::thread::sleep(RETRY_INTERVAL);
    true
}

impl ResultsStoreError {
    /// Returns true if the user gave the wrong file, or files that do not fit the store. False means trouble of the
    /// machine or a damaged store.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            ResultsStoreError::Busy
                | ResultsStoreError::Sqlite(_)
                | ResultsStoreError::Records(_)
                | ResultsStoreError::Record(_)
                | ResultsStoreError::Json(_)
        )
    }
}

impl Store {
    /// Opens an existing store.
    ///
    /// # Errors
    /// The store does not exist or cannot be used.
    pub fn open(path: &Path) -> Result<Store, ResultsStoreError> {
        check_header(path)?;
        // The path must be absolute, because SQLite treats a name that begins with "file:" as a URI.
        let failed = |source| ResultsStoreError::File { path: path.to_owned(), source };
        let path = &path.canonicalize().map_err(failed)?;
        // If the file cannot be written, SQLite opens it only for reading.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_handler(Some(|attempt| wait_for_retry(attempt, READ_ATTEMPTS)))?;
        db.execute_batch("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;")?;
        Ok(Store { db })
    }

    /// Opens a store, and creates it if it does not exist. If two processes create the store at the same time, both use
    /// the same file.
    ///
    /// # Errors
    /// The file is not a store, or cannot be created.
    pub fn open_or_make(path: &Path) -> Result<Store, ResultsStoreError> {
        if path.symlink_metadata().is_err() {
            create_file(path)?;
        }
        Store::open(path)
    }
}

/// Creates an empty store. Other processes see either no file or a complete one.
fn create_file(path: &Path) -> Result<(), ResultsStoreError> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; BEGIN; {TABLES} COMMIT;"
    ))?;
    let bytes = db.serialize("main")?;
    match atomic::write_new(path, &*bytes) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(ResultsStoreError::File { path: path.to_owned(), source }),
        Ok(()) => Ok(()),
    }
}

/// Checks the header of a file before SQLite opens it. SQLite itself might write to the database of another program, if
/// that program left a journal.
fn check_header(path: &Path) -> Result<(), ResultsStoreError> {
    let failed = |source: std::io::Error| match source.kind() {
        // A symbolic link without a target counts as an existing file, so that no store replaces the link.
        ErrorKind::NotFound if !path.is_symlink() => ResultsStoreError::Missing(path.to_owned()),
        _ => ResultsStoreError::File { path: path.to_owned(), source },
    };
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ResultsStoreError::Foreign(path.to_owned()));
    }
    // The format of the header is described in https://www.sqlite.org/fileformat2.html#the_database_header
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut head)).map_err(failed)?;
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?))
    };
    if !head.starts_with(b"SQLite format 3\0") || number(68) != Some(APPLICATION_ID) {
        return Err(ResultsStoreError::Foreign(path.to_owned()));
    }
    match number(60) {
        Some(VERSION) => Ok(()),
        found => {
            Err(ResultsStoreError::Version { path: path.to_owned(), found: found.unwrap_or(0) })
        }
    }
}
