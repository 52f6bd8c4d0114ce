//! The data of an experiment: which there are, the outliers in files, and whether finished models had the same.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::settings::{FileSet, Files};
use super::{DetectionError, Experiment, Finished, run_folder};
use nae_data::own::{self, Corrupt};
use nae_data::{DataError, ImageForm, ImageSet, Loaded, Source};
use nae_train::config::Config;
use nae_train::recorded::OtherData;
use nae_train::run::RunError;

/// Outliers that have been read.
pub(super) struct Outliers {
    pub(super) images: ImageSet,
    pub(super) sha256: String,
    pub(super) warnings: Vec<String>,
}

impl Experiment {
    /// The optional sets of outliers whose files are missing.
    pub fn absent_sets(&self) -> Vec<&str> {
        self.settings.sets.iter().filter(|set| self.is_absent(set)).map(|set| set.name.as_str()).collect()
    }

    pub(super) fn is_absent(&self, set: &FileSet) -> bool {
        set.optional && !self.path(set).exists()
    }

    /// The file or folder that has the outliers of `set`.
    fn path(&self, set: &FileSet) -> PathBuf {
        match &set.files {
            Files::Images(path) => self.data.join(path),
            Files::Idx(start) => self.data.join(start).parent().map(Path::to_owned).unwrap_or_default(),
        }
    }

    /// Checks that the data and outliers are those of the models `finished` in the folder `path`: of all of them, before one
    /// is trained whose results could not be joined with theirs.
    pub(super) fn check(&self, finished: &[Finished], path: &Path) -> Result<(), DetectionError> {
        let (mut sources, mut sets) = (Vec::new(), BTreeMap::new());
        for done in finished {
            if let Some(cell) = self.settings.cells.iter().find(|cell| cell.name == done.cell) {
                self.check_data(&cell.config, done, path, &mut sources)?;
                self.check_outliers(&cell.config, done, path, &mut sets)?;
            }
        }
        Ok(())
    }

    /// Checks the data of one finished model. If they are not available here, nothing contradicts its results. `sources` keeps
    /// the digests of data that have been read.
    fn check_data(
        &self,
        config: &Config,
        done: &Finished,
        path: &Path,
        sources: &mut Vec<(Source, String)>,
    ) -> Result<(), DetectionError> {
        let source = config.source();
        let data = source.folder_name().map(|name| self.data.join(name));
        let Some(recorded) = done.data_sha256(path)? else { return Ok(()) };
        if data.as_ref().is_some_and(|folder| !folder.exists()) {
            return Ok(());
        }
        let found = match sources.iter().find(|(known, _)| known == source) {
            Some((_, sha256)) => sha256.clone(),
            None => {
                let loaded = source.load(data.as_deref(), &config.form(), Corrupt::Skip).map_err(RunError::Data)?;
                sources.push((source.clone(), loaded.sha256.clone()));
                loaded.sha256
            }
        };
        let folder = run_folder(path, &done.cell, done.seed);
        if found == recorded { Ok(()) } else { Err(OtherData { folder, recorded, found }.into()) }
    }

    /// Checks the same for the outliers in files. `sets` keeps the digests of those that have been read.
    fn check_outliers(
        &self,
        config: &Config,
        done: &Finished,
        path: &Path,
        sets: &mut BTreeMap<String, String>,
    ) -> Result<(), DetectionError> {
        for set in &self.settings.sets {
            let Some(recorded) = done.outliers_sha256.get(&set.name) else { continue };
            let found = match sets.get(&set.name) {
                Some(known) => known.clone(),
                None => match self.outliers(set, config) {
                    Err(DetectionError::Outliers(error)) if error.kind() == Some(ErrorKind::NotFound) => continue,
                    read => {
                        let found = read?.sha256;
                        sets.insert(set.name.clone(), found.clone());
                        found
                    }
                },
            };
            if found != *recorded {
                let (folder, set) = (run_folder(path, &done.cell, done.seed), set.name.clone());
                let recorded = recorded.clone();
                return Err(DetectionError::OtherOutliers { folder, set, recorded, found });
            }
        }
        Ok(())
    }

    /// Reads the outliers of `set` in the form of the models of `config`.
    pub(super) fn outliers(&self, set: &FileSet, config: &Config) -> Result<Outliers, DetectionError> {
        let form = ImageForm {
            transforms: set.transforms,
            ..ImageForm::resized(config.architecture().image(), config.source().resize_filter())
        };
        let read = match &set.files {
            Files::Images(path) => {
                let read =
                    own::load(&self.data.join(path), &form, Corrupt::Skip).map_err(|error| set.with_remedy(error))?;
                Outliers { warnings: read.warnings(), images: read.images, sha256: read.sha256 }
            }
            Files::Idx(start) => {
                let Loaded { train, sha256, warnings, .. } = nae_data::load_idx_part(&self.data.join(start))?;
                let images =
                    form.bring(train).map_err(|cause| DataError::form(&set.name, &cause)).map_err(RunError::Data)?;
                Outliers { images, sha256, warnings }
            }
        };
        let differs = set.differs(read.images.len());
        Ok(Outliers { warnings: read.warnings.into_iter().chain(differs).collect(), ..read })
    }
}
