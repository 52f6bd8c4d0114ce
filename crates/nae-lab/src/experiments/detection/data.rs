//! The data of an experiment: which there are, the outliers in files, and whether finished models had the same.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::settings::{FileSet, Files};
use super::{Cell, DetectionError, Experiment, Finished, Job, run_folder};
use nae_data::own::{self, Corrupt};
use nae_data::{DataError, ImageForm, ImageSet, Loaded, Source};
use nae_train::config::Config;
use nae_train::report::{RESUME, RunFolder};
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

    /// Checks that the data and outliers are those of the models in the folder `path`, `finished` and interrupted: before one of
    /// `jobs` is trained whose results could not be joined with theirs. Models of data that no job has are left out.
    pub(super) fn check(&self, jobs: &[Job<'_>], finished: &[Finished], path: &Path) -> Result<(), DetectionError> {
        let is_asked = |config: &Config| jobs.iter().any(|job| job.cell.config.source() == config.source());
        let (mut sources, mut sets) = (Vec::new(), BTreeMap::new());
        for done in finished {
            let cell = self.settings.cells.iter().find(|cell| cell.name == done.cell && is_asked(&cell.config));
            if let Some(cell) = cell {
                self.check_data(&cell.config, done, path, &mut sources)?;
                self.check_outliers(&cell.config, done, path, &mut sets)?;
            }
        }
        // An interrupted model goes on with its own data, and would be refused only when its turn comes.
        for cell in self.settings.cells.iter().filter(|cell| is_asked(&cell.config)) {
            for seed in self.seeds.iter() {
                let seed = if self.settings.is_start(&cell.name) { 0 } else { seed };
                let folder = run_folder(path, &cell.name, seed);
                if folder.join(RESUME).exists()
                    && let Ok(Some(recorded)) = RunFolder::data_sha256(&folder)
                {
                    self.check_source(&cell.config, folder, recorded, &mut sources)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that a model of `cell` about to be trained in `folder`, with data and outliers of these digests, joins the models
    /// `finished` in one table.
    pub(crate) fn check_joins(
        &self,
        cell: &Cell,
        data_sha256: &str,
        outliers_sha256: &BTreeMap<String, String>,
        finished: &[Finished],
        folder: &Path,
    ) -> Result<(), DetectionError> {
        let path = folder.parent().unwrap_or(folder);
        for done in finished {
            let folder = run_folder(path, &done.cell, done.seed);
            if self.source(&done.cell) == Some(cell.config.source())
                && let Some(recorded) = done.data_sha256(path)?
                && recorded != data_sha256
            {
                return Err(DetectionError::OtherData { folder, recorded, found: data_sha256.to_owned() });
            }
            for (set, recorded) in &done.outliers_sha256 {
                if let Some(found) = outliers_sha256.get(set).filter(|found| *found != recorded) {
                    let (set, recorded, found) = (set.clone(), recorded.clone(), found.clone());
                    return Err(DetectionError::OtherOutliers { folder, set, recorded, found });
                }
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
        let Some(recorded) = done.data_sha256(path)? else { return Ok(()) };
        self.check_source(config, run_folder(path, &done.cell, done.seed), recorded, sources)
    }

    /// Checks that the data of `config` have the digest `recorded`, that of the run in `folder`, if they are available here.
    fn check_source(
        &self,
        config: &Config,
        folder: PathBuf,
        recorded: String,
        sources: &mut Vec<(Source, String)>,
    ) -> Result<(), DetectionError> {
        let source = config.source();
        let data = source.folder_name().map(|name| self.data.join(name));
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
        if found == recorded { Ok(()) } else { Err(DetectionError::OtherData { folder, recorded, found }) }
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
