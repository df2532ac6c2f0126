//! Which models the repository paths hold, by the names clients use.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::layout::{self, Child, Holding, Layout};
use super::options::Places;
use super::{config_file, names};

/// A model that a repository path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What it is called in answers and in the index.
    pub name: String,
    /// What it answers to besides.
    pub alias: Option<String>,
    /// Where it lies; or why that is no use.
    pub place: Result<Place, String>,
}

/// Where a model lies, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The model's directory, or the file of [`Layout::File`].
    pub path: PathBuf,
    /// How its files lie.
    pub layout: Layout,
    /// Whose word counts for its name.
    pub naming: Naming,
}

/// Whose word counts for a model's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// The directory's: a configuration that says otherwise is refused, as Triton does.
    Directory,
    /// The flag's or the configuration's: the path is a mount point that is called anything.
    Free,
}

/// Models by name.
pub(super) type Catalog = BTreeMap<String, Found>;

/// Looks through all repository paths.
///
/// # Errors
/// A path that cannot be read. What is wrong with one model stands in its [`Found::place`].
pub(super) fn list(places: &Places) -> Result<Catalog, String> {
    let mut catalog = Catalog::new();
    for path in &places.paths {
        match layout::probe(path)? {
            Holding::Model(layout) => add(&mut catalog, single(path, layout, places)?),
            Holding::Directory => list_directory(&mut catalog, path)?,
        }
    }
    name_the_only_one(&mut catalog, places.model_name.as_deref());
    Ok(catalog)
}

/// A path that is itself a model answers to `--model-name` and to its own name.
fn single(path: &Path, layout: Layout, places: &Places) -> Result<Found, String> {
    let own = config_file::declared_name(own_name(path, layout)?, (path, layout), places);
    let place = Ok(Place {
        path: path.to_owned(),
        layout,
        naming: Naming::Free,
    });
    Ok(match &places.model_name {
        Some(name) if *name != own => Found {
            name: name.clone(),
            alias: Some(own),
            place,
        },
        Some(_) | None => Found {
            name: own,
            alias: None,
            place,
        },
    })
}

/// The last part of the path, without its extension where it is a file.
fn own_name(path: &Path, layout: Layout) -> Result<String, String> {
    let resolved = match path.components().next_back() {
        Some(Component::Normal(_)) => path.to_owned(),
        // `.` and `..` have no name of their own, what they point to has.
        _ => path
            .canonicalize()
            .map_err(|error| layout::unreadable(path, &error))?,
    };
    let name = match layout {
        Layout::File => resolved.file_stem(),
        Layout::Versioned | Layout::Bare => resolved.file_name(),
    };
    let name = name.and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        format!(
            "'{}' gives its model no usable name, --model-name can",
            path.display()
        )
    })
}

fn list_directory(catalog: &mut Catalog, directory: &Path) -> Result<(), String> {
    for child in layout::children(directory)? {
        if let Some(found) = in_directory(&child) {
            add(catalog, found);
        }
    }
    Ok(())
}

/// The model that an entry of a repository is, if it is one.
fn in_directory(child: &Child) -> Option<Found> {
    if !child.path.is_dir() || is_housekeeping(child.name.as_deref()?) {
        return None;
    }
    let name = child.name.clone()?;
    if names::check(&name).is_err() {
        tracing::warn!(path = %child.path.display(), "ignored: no client could ask for this name");
        return None;
    }
    let place = match layout::probe(&child.path) {
        Ok(Holding::Model(layout)) => Ok(Place {
            path: child.path.clone(),
            layout,
            naming: Naming::Directory,
        }),
        Ok(Holding::Directory) => {
            tracing::debug!(path = %child.path.display(), "ignored: no config.pbtxt, version or model.pt");
            return None;
        }
        Err(reason) => Err(reason),
    };
    Some(Found {
        name,
        alias: None,
        place,
    })
}

/// Version control and Kubernetes volumes use dotted names; ext4 keeps `lost+found` for itself, closed.
fn is_housekeeping(name: &str) -> bool {
    name.starts_with('.') || name == "lost+found"
}

fn add(catalog: &mut Catalog, found: Found) {
    let Some(other) = catalog.get_mut(&found.name) else {
        catalog.insert(found.name.clone(), found);
        return;
    };
    let shown = |place: &Result<Place, String>| match place {
        Ok(place) => place.path.display().to_string(),
        Err(reason) => reason.clone(),
    };
    let (first, second) = (shown(&other.place), shown(&found.place));
    other.place = Err(format!(
        "model '{}' is in more than one repository: '{first}' and '{second}'",
        found.name
    ));
}

/// The only model of a repository answers to `--model-name` too.
fn name_the_only_one(catalog: &mut Catalog, model_name: Option<&str>) {
    let Some(model_name) = model_name else { return };
    let only = catalog.len() == 1;
    if let Some(found) = catalog.values_mut().next()
        && only
        && found.name != model_name
    {
        found.alias = Some(model_name.to_owned());
    }
    let answers =
        |found: &Found| found.name == model_name || found.alias.as_deref() == Some(model_name);
    if !only && !catalog.values().any(answers) {
        tracing::warn!(
            model_name,
            models = catalog.len(),
            "--model-name fits none of several models"
        );
    }
}
