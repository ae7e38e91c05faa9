//! A results store: one SQLite file that keeps the records of runs, each record once.
//!
//! It keeps and gives back; what the records mean is told by `report`. A record is kept as its JSON. What many records share (the
//! stack, the device, the environment) is kept once, so that it takes less than the record files.

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
    add::{Added, Adding, SEVERAL},
    read::{Ground, Kept},
};

/// Version of the tables. It grows when a table changes its meaning.
pub const VERSION: u32 = 1;

/// What tells a store of ours from every other SQLite file: "rocr".
const OURS: u32 = 0x726f_6372;

/// Between two attempts to use a store that another process writes to.
const PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of attempts of a reader (5 s) and of a writer (120 s).
const READER: i32 = 100;
const WRITER: i32 = 2400;

const TABLES: &str = "
-- JSON that records share.
CREATE TABLE part (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
-- A run: what it was to do, and what it stood on.
CREATE TABLE run (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, opened TEXT NOT NULL, trials INTEGER NOT NULL REFERENCES part,
    began TEXT NOT NULL, ground TEXT, words TEXT
);
-- The runs that a run holds: itself, and its shards where it was merged.
CREATE TABLE member (name TEXT PRIMARY KEY, run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE) WITHOUT ROWID;
CREATE TABLE trial (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, number INTEGER NOT NULL, of_case TEXT NOT NULL, date TEXT NOT NULL,
    passed INTEGER NOT NULL, stack INTEGER NOT NULL REFERENCES part, device INTEGER NOT NULL REFERENCES part,
    environment INTEGER NOT NULL REFERENCES part, limits INTEGER NOT NULL REFERENCES part, rest TEXT NOT NULL,
    UNIQUE (run, number)
);
CREATE INDEX trial_of_case ON trial (of_case);
";

/// Fields of a record that many share, each kept as a part of its own.
const SHARED: [&str; 4] = ["stack", "device", "environment", "limits"];

/// A store that is open.
#[derive(Debug)]
pub struct Store {
    db: Connection,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is none.
    #[error("there is no store `{}`; `rocrepro store add` makes one", .0.display())]
    Missing(PathBuf),
    /// The file is something else; it was not touched.
    #[error("`{}` is not a results store of rocrepro", .0.display())]
    Foreign(PathBuf),
    /// Its tables are of another version; it was not touched.
    #[error("`{}` has tables of version {found}; this rocrepro knows version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
    },
    /// A file could not be read or made.
    #[error("cannot open the store `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process has been writing to it for longer than it is waited for.
    #[error(
        "another process is writing to the store, and waiting for it took too long; try again when it has ended"
    )]
    Busy,
    /// What SQLite said.
    #[error("the store: {0}")]
    Sqlite(rusqlite::Error),
    /// Records that were to be added cannot be read.
    #[error("the records cannot be read: {0}")]
    Records(io::Error),
    /// A record in it cannot be read.
    #[error("the store holds something that is not a record: {0}")]
    Record(#[from] report::RecordError),
    /// The same.
    #[error("the store holds something that is not a record: {0}")]
    Json(#[from] serde_json::Error),
    /// A run of the same name, with another plan, is in it.
    #[error("run {0} is in the store with another plan")]
    OtherPlan(String),
    /// A run that says that it was merged from another one does not have its trials.
    #[error("run {1} says that run {0} is a part of it, and does not plan the same trials")]
    NoPart(String, String),
    /// A merged run and one of its parts were to be told apart.
    #[error("some shards of run {0} are in the store already as part of another merged run, {1}")]
    Merged(String, String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Busy,
            _ => Trouble::Sqlite(error),
        }
    }
}

/// Reports that this process waits. SQLite calls a plain function, which can find it nowhere else.
static TELL: OnceLock<fn()> = OnceLock::new();

/// Names what is called each time that this process begins to wait for another one that writes to a store. The first name stays.
pub fn tell_waits(tell: fn()) {
    let _ = TELL.set(tell);
}

/// Waits a moment, and gives up after so many attempts.
fn wait(attempt: i32, most: i32) -> bool {
    if attempt >= most {
        return false;
    }
    // The first moments are those of any other process that writes.
    if attempt == 10
        && let Some(tell) = TELL.get()
    {
        tell();
    }
    std::thread::sleep(PAUSE);
    true
}

impl Trouble {
    /// Whether another file should have been named.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            Trouble::Busy
                | Trouble::Sqlite(_)
                | Trouble::Records(_)
                | Trouble::Record(_)
                | Trouble::Json(_)
        )
    }
}

impl Store {
    /// Opens a store.
    ///
    /// # Errors
    /// No store there, or one that cannot be used.
    pub fn open(path: &Path) -> Result<Store, Trouble> {
        look(path)?;
        // Whole, as SQLite takes a name that begins with "file:" for an address.
        let failed = |source| Trouble::File { path: path.to_owned(), source };
        let path = &path.canonicalize().map_err(failed)?;
        // Without a right to write SQLite takes it as it is.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_handler(Some(|attempt| wait(attempt, READER)))?;
        db.execute_batch("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;")?;
        Ok(Store { db })
    }

    /// Opens a store, and makes it where nothing is. Of two processes that make it at once both use the same.
    ///
    /// # Errors
    /// Something else there, or no right to make one.
    pub fn open_or_make(path: &Path) -> Result<Store, Trouble> {
        if path.symlink_metadata().is_err() {
            make(path)?;
        }
        Store::open(path)
    }
}

/// Makes an empty store, whole or not at all.
fn make(path: &Path) -> Result<(), Trouble> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(&format!(
        "PRAGMA application_id = {OURS}; PRAGMA user_version = {VERSION}; BEGIN; {TABLES} COMMIT;"
    ))?;
    let bytes = db.serialize("main")?;
    match atomic::write_new(path, &*bytes) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Trouble::File { path: path.to_owned(), source }),
        Ok(()) => Ok(()),
    }
}

/// Looks at the head of a file before SQLite does, which would write to a database of others with a journal left behind.
fn look(path: &Path) -> Result<(), Trouble> {
    let failed = |source: std::io::Error| match source.kind() {
        // A link that leads nowhere is there, and is not replaced.
        ErrorKind::NotFound if !path.is_symlink() => Trouble::Missing(path.to_owned()),
        _ => Trouble::File { path: path.to_owned(), source },
    };
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Trouble::Foreign(path.to_owned()));
    }
    // https://www.sqlite.org/fileformat2.html#the_database_header
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut head)).map_err(failed)?;
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?))
    };
    if !head.starts_with(b"SQLite format 3\0") || number(68) != Some(OURS) {
        return Err(Trouble::Foreign(path.to_owned()));
    }
    match number(60) {
        Some(VERSION) => Ok(()),
        found => Err(Trouble::Version { path: path.to_owned(), found: found.unwrap_or(0) }),
    }
}
