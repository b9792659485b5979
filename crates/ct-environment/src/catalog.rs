//! Where environments are found: folders, nearest first, then the binary.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::environment::Environment;
use crate::error::{EnvironmentError, Problem};
use crate::manifest::{self, MANIFEST, TASK};
use crate::sandbox::Folder;
use crate::shipped;

/// Where an environment was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In a folder.
    Folder,
    /// In the binary.
    Shipped,
}

/// Finds environments. Of two with one name the nearer is meant; the other goes by `setting/name`, if that differs.
#[derive(Debug)]
pub struct Catalog {
    folders: Vec<PathBuf>,
    shipped: Folder,
}

/// One environment found, or a folder that was meant to be one.
#[derive(Debug)]
pub struct Listing {
    /// Its name, or that of its folder.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
    /// The kind of place.
    pub place: Place,
    /// What it is, or what is wrong with it.
    pub environment: Result<Environment, Vec<Problem>>,
    /// The folder of a nearer one with the same long name, which is meant by it.
    pub hidden_by: Option<PathBuf>,
}

impl Catalog {
    /// A catalog of folders that hold environments (or are one), nearest first; those that do not exist are passed over.
    /// What the binary ships comes last: it is written to a private folder that goes with the catalog.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self, EnvironmentError> {
        Ok(Self { folders: folders.into_iter().collect(), shipped: shipped::extract()? })
    }

    /// Everything found, nearest first.
    #[must_use]
    pub fn list(&self) -> Vec<Listing> {
        let mut found = Vec::new();
        for folder in &self.folders {
            add(folder, Place::Folder, &mut found);
        }
        add(&self.shipped.path().join("environments"), Place::Shipped, &mut found);
        for index in 1..found.len() {
            let same = |other: &&Listing| other.long_name() == found[index].long_name();
            let nearer = found[..index].iter().find(same).map(|other| other.folder.clone());
            found[index].hidden_by = nearer;
        }
        found
    }

    /// The environment of a name (`name` or `setting/name`), or in a folder given by a path with a `/` at its beginning or
    /// after dots.
    pub fn find(&self, name: &str) -> Result<Environment, EnvironmentError> {
        if name.starts_with(['/', '.']) {
            let folder = Path::new(name);
            if !is_environment(folder) {
                return Err(self.unknown(name, &[]));
            }
            let loaded = manifest::load(folder, Place::Folder);
            return loaded.map_err(|problems| EnvironmentError::Invalid { name: name.to_owned(), problems });
        }
        let mut list = self.list();
        let Some(index) = list.iter().position(|listing| listing.goes_by(name)) else {
            return Err(self.unknown(name, &list));
        };
        let listing = list.swap_remove(index);
        listing.environment.map_err(|problems| EnvironmentError::Invalid { name: listing.name, problems })
    }

    fn unknown(&self, name: &str, list: &[Listing]) -> EnvironmentError {
        let mut known: Vec<String> = list.iter().map(Listing::long_name).collect();
        known.sort();
        known.dedup();
        EnvironmentError::Unknown { name: name.to_owned(), known, searched: self.folders.clone() }
    }
}

impl Listing {
    /// `setting/name`, or the name alone.
    #[must_use]
    pub fn long_name(&self) -> String {
        self.environment.as_ref().map_or_else(|_| self.name.clone(), Environment::long_name)
    }

    fn goes_by(&self, name: &str) -> bool {
        self.name == name || self.long_name() == name
    }
}

fn is_environment(folder: &Path) -> bool {
    [MANIFEST, TASK].iter().any(|file| folder.join(file).is_file())
}

/// Adds the environments of a folder: itself if it is one, else the folders in it, and those a level deeper (by setting).
fn add(folder: &Path, place: Place, found: &mut Vec<Listing>) {
    if is_environment(folder) {
        found.push(listing(folder, place));
        return;
    }
    for inner in folders(folder) {
        if is_environment(&inner) {
            found.push(listing(&inner, place));
            continue;
        }
        found.extend(
            folders(&inner).iter().filter(|inner| is_environment(inner)).map(|inner| listing(inner, place)),
        );
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn listing(folder: &Path, place: Place) -> Listing {
    let environment = manifest::load(folder, place);
    let of_folder = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = environment.as_ref().map_or_else(|_| of_folder(), |environment| environment.name.clone());
    Listing { name, folder: folder.to_owned(), place, environment, hidden_by: None }
}
