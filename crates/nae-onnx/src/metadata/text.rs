//! The conversion of metadata to and from keys and text.

use std::collections::BTreeMap;
use std::str::FromStr;

use nae_core::Shape;
use nae_core::calibration::{Calibration, MAX_COUNT, Spacing, TABLE_LEN};
use nae_core::contract::{Contract, Preprocessing, ResizeFilter};
use nae_core::density::Temperature;
use nae_core::energy::Energy;

use crate::excerpt::excerpt;

use super::{
    Column, Columns, ColumnsError, FORMAT_VERSION, Features, Fit, Geometry, Latent, MetadataError, Missing,
    ModelMetadata, Provenance, Reading, RowWindow, Tiles, Transforms,
};

pub(super) const PREFIX: &str = "nae.";

/// The maximum side of an image and the maximum latent dimension: this limits how much memory a
/// hostile file can make a reader allocate, long before a network of that size would.
const MAX_EXTENT: usize = 1 << 16;

mod key {
    pub(super) const FORMAT_VERSION: &str = "nae.format_version";
    pub(super) const ENERGY: &str = "nae.energy";
    pub(super) const TEMPERATURE: &str = "nae.temperature";
    pub(super) const GEOMETRY: &str = "nae.latent.geometry";
    pub(super) const DIMENSION: &str = "nae.latent.dimension";
    pub(super) const WIDTH: &str = "nae.preprocessing.width";
    pub(super) const HEIGHT: &str = "nae.preprocessing.height";
    pub(super) const CHANNELS: &str = "nae.preprocessing.channels";
    pub(super) const LOW: &str = "nae.preprocessing.low";
    pub(super) const HIGH: &str = "nae.preprocessing.high";
    pub(super) const RESIZE: &str = "nae.preprocessing.resize";
    pub(super) const CROP: &str = "nae.preprocessing.crop";
    pub(super) const FIT: &str = "nae.preprocessing.fit";
    pub(super) const INVERT: &str = "nae.preprocessing.invert";
    pub(super) const COLUMNS: &str = "nae.table.columns";
    pub(super) const CENTER: &str = "nae.table.mean";
    pub(super) const SCALE: &str = "nae.table.deviation";
    pub(super) const SPAN: &str = "nae.table.span";
    pub(super) const KNEE: &str = "nae.table.knee";
    pub(super) const READINGS: &str = "nae.table.readings";
    pub(super) const MISSING: &str = "nae.table.missing";
    pub(super) const WINDOW: &str = "nae.table.window";
    pub(super) const WINDOW_STRIDE: &str = "nae.table.window_stride";
    pub(super) const TILE_STRIDE: &str = "nae.tiles.stride";
    pub(super) const TOP_K: &str = "nae.tiles.top_k";
    pub(super) const COMPONENTS: &str = "nae.features.components";
    pub(super) const PLACE_ROWS: &str = "nae.features.rows";
    pub(super) const PLACE_COLUMNS: &str = "nae.features.columns";
    pub(super) const PLACES_TOP_K: &str = "nae.features.top_k";
    pub(super) const COUNT: &str = "nae.calibration.count";
    pub(super) const TABLE: &str = "nae.calibration.table";
    pub(super) const SPACING: &str = "nae.calibration.spacing";
    pub(super) const RATE: &str = "nae.calibration.false_positive_rate";
    pub(super) const THRESHOLD: &str = "nae.calibration.threshold";
    pub(super) const ARCHITECTURE: &str = "nae.architecture";
    pub(super) const METHOD: &str = "nae.method";
    pub(super) const DATA_DESCRIPTION: &str = "nae.data.description";
    pub(super) const DATA_SHA256: &str = "nae.data.sha256";
    pub(super) const SEED: &str = "nae.seed";
    pub(super) const CRATE_VERSION: &str = "nae.crate_version";
}

/// The value of [`key::SPACING`] for [`Spacing::Tail`].
const TAIL: &str = "tail";

pub(super) fn write(m: &ModelMetadata) -> Vec<(String, String)> {
    let contract = &m.contract;
    // `{:?}` of a float is the shortest text that reads back as the same float.
    let mut entries = vec![
        (key::FORMAT_VERSION, FORMAT_VERSION.to_string()),
        (key::ENERGY, contract.energy.name().to_owned()),
        (key::TEMPERATURE, format!("{:?}", contract.temperature.get())),
    ];
    if let Some(latent) = m.latent {
        entries.extend([
            (key::GEOMETRY, latent.geometry.name().to_owned()),
            (key::DIMENSION, latent.dimension.to_string()),
        ]);
    }
    entries.extend([
        (key::WIDTH, contract.input.width.to_string()),
        (key::HEIGHT, contract.input.height.to_string()),
        (key::CHANNELS, contract.input.channels.to_string()),
        (key::LOW, format!("{:?}", contract.preprocessing.low())),
        (key::HIGH, format!("{:?}", contract.preprocessing.high())),
        (key::RESIZE, contract.preprocessing.filter().name().to_owned()),
    ]);
    // Defaults are omitted, so that files without transforms are the same as before transforms
    // existed.
    let Transforms { crop, fit, invert } = m.transforms;
    entries.extend(crop.map(|side| (key::CROP, side.to_string())));
    entries.extend((fit != Fit::default()).then(|| (key::FIT, fit.name().to_owned())));
    entries.extend(invert.then(|| (key::INVERT, invert.to_string())));
    if let Some(c) = &m.columns {
        let names: Vec<&str> = c.columns().iter().map(|column| column.name.as_str()).collect();
        let numbers = |of: fn(&Column) -> f64| {
            c.columns().iter().map(|column| format!("{:?}", of(column))).collect::<Vec<_>>().join(" ")
        };
        entries.extend([
            (key::COLUMNS, serde_json::Value::from(names).to_string()),
            (key::CENTER, numbers(|column| column.center)),
            (key::SCALE, numbers(|column| column.scale)),
            (key::SPAN, numbers(|column| column.span)),
            (key::MISSING, c.missing().name().to_owned()),
        ]);
        let has_knees = c.columns().iter().any(|column| column.knee.is_some());
        entries.extend(has_knees.then(|| (key::KNEE, numbers(|column| column.knee.unwrap_or(0.0)))));
        if c.columns().iter().any(|column| !column.reading.is_number()) {
            let readings: Vec<&Reading> = c.columns().iter().map(|column| &column.reading).collect();
            entries.extend(serde_json::to_string(&readings).ok().map(|text| (key::READINGS, text)));
        }
    }
    if let Some(RowWindow { rows, stride }) = m.window {
        entries.extend([(key::WINDOW, rows.to_string()), (key::WINDOW_STRIDE, stride.to_string())]);
    }
    if let Some(Tiles { stride, top_k }) = m.tiles {
        entries.extend([(key::TILE_STRIDE, stride.to_string()), (key::TOP_K, top_k.to_string())]);
    }
    if let Some(Features { components, rows, columns, top_k }) = m.features {
        entries.extend([
            (key::COMPONENTS, components.to_string()),
            (key::PLACE_ROWS, rows.to_string()),
            (key::PLACE_COLUMNS, columns.to_string()),
            (key::PLACES_TOP_K, top_k.to_string()),
        ]);
    }
    if let Some(calibration) = contract.calibration() {
        let table: Vec<String> = calibration.table().iter().map(|e| format!("{e:?}")).collect();
        entries.extend([(key::COUNT, calibration.count().to_string()), (key::TABLE, table.join(" "))]);
        if let Some(threshold) = contract.threshold() {
            entries.extend([
                (key::RATE, format!("{:?}", threshold.false_positive_rate)),
                (key::THRESHOLD, format!("{:?}", threshold.energy)),
            ]);
        }
        if calibration.count() > TABLE_LEN && calibration.spacing() == Spacing::Tail {
            entries.push((key::SPACING, TAIL.to_owned()));
        }
    }
    let p = &m.provenance;
    entries.extend([
        (key::ARCHITECTURE, p.architecture.clone()),
        (key::METHOD, p.method.clone()),
        (key::DATA_DESCRIPTION, p.data_description.clone()),
        (key::DATA_SHA256, p.data_sha256.clone()),
        (key::SEED, p.seed.to_string()),
        (key::CRATE_VERSION, p.crate_version.clone()),
    ]);
    entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

pub(super) fn read<'a>(
    entries: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Option<ModelMetadata>, MetadataError> {
    let mut map = BTreeMap::new();
    for (k, v) in entries.into_iter().filter(|(k, _)| k.starts_with(PREFIX)) {
        if map.insert(k, v).is_some() {
            return Err(MetadataError::Duplicate { key: excerpt(k) });
        }
    }
    if map.is_empty() {
        return Ok(None);
    }
    let entries = Entries(map);
    // Checked first, so that a file of a later format is reported as such, not as a file with many
    // errors.
    let version: u32 = entries.parse(key::FORMAT_VERSION, "1")?;
    if version != FORMAT_VERSION {
        let expected = "1, the format this program knows; a newer release may know this one";
        return Err(invalid(key::FORMAT_VERSION, expected, &version.to_string()));
    }
    let low = entries.finite(key::LOW)?;
    let high = entries.finite(key::HIGH)?;
    let filter = entries.named(
        key::RESIZE,
        "nearest, box, bilinear, bilinear-align-corners, catmull-rom or lanczos3",
        ResizeFilter::from_name,
    )?;
    let preprocessing = Preprocessing::new(low, high, filter)
        .map_err(|_| invalid(key::HIGH, &format!("above nae.preprocessing.low, {low:?}"), &format!("{high:?}")))?;
    let input = Shape::new(entries.extent(key::CHANNELS)?, entries.extent(key::HEIGHT)?, entries.extent(key::WIDTH)?);
    let window = window(&entries)?;
    let mut contract = Contract::new(input);
    contract.preprocessing = preprocessing;
    contract.energy = entries.named(key::ENERGY, "squared-l2, l1 or ssim", Energy::from_name)?;
    if contract.energy == Energy::Ssim && !preprocessing.is_unit() {
        return Err(invalid(key::ENERGY, "squared-l2 or l1 for a range other than 0 to 1", contract.energy.name()));
    }
    contract.temperature =
        entries.named(key::TEMPERATURE, "a positive number", |text| Temperature::new(text.parse().ok()?).ok())?;
    let features = features(&entries, contract.energy)?;
    Ok(Some(ModelMetadata {
        contract: calibrated(contract, &entries)?,
        latent: latent(&entries)?,
        transforms: transforms(&entries)?,
        columns: columns(&entries, input, window)?,
        window,
        tiles: tiles(&entries, input)?,
        features,
        provenance: Provenance {
            architecture: entries.text(key::ARCHITECTURE, "the network's name")?.to_owned(),
            method: entries.text(key::METHOD, "how it was trained")?.to_owned(),
            data_description: entries.text(key::DATA_DESCRIPTION, "what it was trained on")?.to_owned(),
            data_sha256: entries.text(key::DATA_SHA256, "the data's SHA-256")?.to_owned(),
            seed: entries.parse(key::SEED, "an integer from 0 to 2^64 - 1")?,
            crate_version: entries.text(key::CRATE_VERSION, "a version")?.to_owned(),
        },
    }))
}

fn latent(entries: &Entries<'_>) -> Result<Option<Latent>, MetadataError> {
    if entries.none_of(&[key::GEOMETRY, key::DIMENSION]) {
        return Ok(None);
    }
    Ok(Some(Latent {
        geometry: entries.named(key::GEOMETRY, "sphere or euclidean", Geometry::from_name)?,
        dimension: entries.extent(key::DIMENSION)?,
    }))
}

fn transforms(entries: &Entries<'_>) -> Result<Transforms, MetadataError> {
    let there = |key| !entries.none_of(&[key]);
    let mut transforms = Transforms::default();
    if there(key::CROP) {
        transforms.crop = Some(entries.extent(key::CROP)?);
    }
    if there(key::FIT) {
        transforms.fit = entries.named(key::FIT, "stretch, crop or pad", Fit::from_name)?;
    }
    if there(key::INVERT) {
        transforms.invert = entries.parse(key::INVERT, "true or false")?;
    }
    Ok(transforms)
}

fn window(entries: &Entries<'_>) -> Result<Option<RowWindow>, MetadataError> {
    if entries.none_of(&[key::WINDOW, key::WINDOW_STRIDE]) {
        return Ok(None);
    }
    // The columns are checked where they are read.
    entries.text(key::COLUMNS, "the columns of the rows in a window")?;
    Ok(Some(RowWindow { rows: entries.extent(key::WINDOW)?, stride: entries.extent(key::WINDOW_STRIDE)? }))
}

fn tiles(entries: &Entries<'_>, input: Shape) -> Result<Option<Tiles>, MetadataError> {
    if entries.none_of(&[key::TILE_STRIDE, key::TOP_K]) {
        return Ok(None);
    }
    let tiles = Tiles { stride: entries.extent(key::TILE_STRIDE)?, top_k: entries.extent(key::TOP_K)? };
    let side = input.height.min(input.width);
    if tiles.stride > side {
        let expected = format!("at most a tile's side, {side}");
        return Err(invalid(key::TILE_STRIDE, &expected, &tiles.stride.to_string()));
    }
    for (key, what) in [(key::COLUMNS, "a table"), (key::CROP, "a crop"), (key::FIT, "a fit")] {
        if entries.0.contains_key(key) {
            let expected = format!("left out together with {what} (`{key}`): tiled images keep their size");
            return Err(invalid(key::TILE_STRIDE, &expected, &tiles.stride.to_string()));
        }
    }
    Ok(Some(tiles))
}

fn features(entries: &Entries<'_>, energy: Energy) -> Result<Option<Features>, MetadataError> {
    if entries.none_of(&[key::COMPONENTS, key::PLACE_ROWS, key::PLACE_COLUMNS, key::PLACES_TOP_K]) {
        return Ok(None);
    }
    let features = Features {
        components: entries.extent(key::COMPONENTS)?,
        rows: entries.extent(key::PLACE_ROWS)?,
        columns: entries.extent(key::PLACE_COLUMNS)?,
        top_k: entries.extent(key::PLACES_TOP_K)?,
    };
    let found = features.components.to_string();
    for (key, what) in [(key::COLUMNS, "a table"), (key::TILE_STRIDE, "tiles")] {
        if entries.0.contains_key(key) {
            let expected = format!("left out together with {what} (`{key}`): features are of whole images");
            return Err(invalid(key::COMPONENTS, &expected, &found));
        }
    }
    if energy == Energy::Ssim {
        return Err(invalid(key::ENERGY, "squared-l2 or l1 with nae.features: a place has one pixel", energy.name()));
    }
    Ok(Some(features))
}

fn columns(entries: &Entries<'_>, input: Shape, window: Option<RowWindow>) -> Result<Option<Columns>, MetadataError> {
    let keys = [key::COLUMNS, key::CENTER, key::SCALE, key::SPAN, key::MISSING];
    if entries.none_of(&keys) {
        return Ok(None);
    }
    // Each extent is limited; their product must be the length of the input.
    let length = [input.channels, input.height, input.width].iter().try_fold(1usize, |n, &side| n.checked_mul(side));
    let rows = window.map_or(1, |window| window.rows);
    let expected = match rows {
        1 => format!("as many as the input's values, {}", length.unwrap_or(usize::MAX)),
        _ => format!("a {rows}th of the input's values, which are {}", length.unwrap_or(usize::MAX)),
    };
    let counted = |key: &'static str, found: usize| {
        if found.checked_mul(rows).is_some_and(|values| Some(values) == length) {
            Ok(())
        } else {
            Err(invalid(key, &expected, &found.to_string()))
        }
    };
    let names: Vec<String> =
        entries.named(key::COLUMNS, "a JSON array of names", |text| serde_json::from_str(text).ok())?;
    counted(key::COLUMNS, names.len())?;
    let numbers = |key: &'static str| {
        let numbers: Vec<f64> = entries.named(key, "numbers separated by spaces", |text| {
            text.split_ascii_whitespace().map(|field| field.parse().ok()).collect()
        })?;
        counted(key, numbers.len()).map(|()| numbers)
    };
    let (centers, scales, spans) = (numbers(key::CENTER)?, numbers(key::SCALE)?, numbers(key::SPAN)?);
    let missing = entries.named(key::MISSING, "refuse or fill", Missing::from_name)?;
    // Files of earlier versions, and tables without these properties, lack the keys.
    let knees = if entries.none_of(&[key::KNEE]) { vec![0.0; names.len()] } else { numbers(key::KNEE)? };
    if let Some(knee) = knees.iter().find(|knee| !(knee.is_finite() && **knee >= 0.0)) {
        return Err(invalid(key::KNEE, "finite numbers, at least 0", &knee.to_string()));
    }
    let readings = if entries.none_of(&[key::READINGS]) {
        vec![Reading::Number; names.len()]
    } else {
        let expected = r#"a JSON array of "number", "absent" and {"is": TEXT}"#;
        let readings: Vec<Reading> = entries.named(key::READINGS, expected, |text| serde_json::from_str(text).ok())?;
        counted(key::READINGS, readings.len())?;
        readings
    };
    let columns =
        names.into_iter().zip(readings).zip(centers.into_iter().zip(scales)).zip(knees.into_iter().zip(spans));
    let columns = columns.map(|(((name, reading), (center, scale)), (knee, span))| Column {
        name,
        reading,
        center,
        scale,
        knee: (knee != 0.0).then_some(knee),
        span,
    });
    Columns::new(columns.collect(), missing).map(Some).map_err(|error| match error {
        ColumnsError::Numbers { .. } => invalid(key::SCALE, "finite, and positive", &error.to_string()),
        _ => invalid(key::COLUMNS, "names that differ", &error.to_string()),
    })
}

/// The contract with the calibration in the entries, if there is one.
fn calibrated(contract: Contract, entries: &Entries<'_>) -> Result<Contract, MetadataError> {
    let keys = [key::COUNT, key::TABLE, key::SPACING, key::RATE, key::THRESHOLD];
    if entries.none_of(&keys) {
        return Ok(contract);
    }
    let count: usize = entries.parse(key::COUNT, "a positive integer")?;
    if count == 0 || count > MAX_COUNT {
        return Err(invalid(key::COUNT, &format!("from 1 to {MAX_COUNT}"), &count.to_string()));
    }
    let text = entries.text(key::TABLE, "energies separated by spaces")?;
    let length = count.min(TABLE_LEN);
    // One more than allowed is enough to detect that there are too many.
    let mut table = Vec::with_capacity(length);
    for (i, field) in text.split_ascii_whitespace().take(length + 1).enumerate() {
        let energy = field.parse().ok().filter(|e: &f32| e.is_finite());
        table.push(energy.ok_or_else(|| {
            invalid(key::TABLE, "finite numbers separated by spaces", &format!("number {}: {field:?}", i + 1))
        })?);
    }
    if table.len() != length {
        let found = if table.len() > length { "more".to_owned() } else { table.len().to_string() };
        return Err(invalid(key::TABLE, &format!("{length} numbers, as {} of {count} asks", key::COUNT), &found));
    }
    let spacing = match entries.0.get(key::SPACING).copied() {
        None => Spacing::Even,
        Some(TAIL) => Spacing::Tail,
        Some(other) => return Err(invalid(key::SPACING, &format!("{TAIL:?}, or no such key"), other)),
    };
    let calibration = Calibration::from_table(count, spacing, &table)
        .map_err(|e| invalid(key::TABLE, "ascending", &e.to_string()))?;
    if entries.none_of(&[key::RATE, key::THRESHOLD]) {
        return Ok(contract.with_p_values(calibration));
    }
    let rate = entries.finite(key::RATE)?;
    let stored = entries.finite(key::THRESHOLD)?;
    let contract = contract.with_calibration(calibration, rate).map_err(|e| {
        let expected = format!("from 1/(n + 1) to 1, n being {count}");
        invalid(key::RATE, &expected, &format!("{rate:?} ({e})"))
    })?;
    if let Some(threshold) = contract.threshold().filter(|threshold| threshold.energy != stored) {
        let expected = format!("{:?}, as table and rate give it", threshold.energy);
        return Err(invalid(key::THRESHOLD, &expected, &format!("{stored:?}; the file was altered")));
    }
    Ok(contract)
}

struct Entries<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Entries<'a> {
    fn none_of(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| !self.0.contains_key(key))
    }

    fn text(&self, key: &'static str, expected: &'static str) -> Result<&'a str, MetadataError> {
        self.0.get(key).copied().ok_or(MetadataError::Missing { key, expected })
    }

    fn named<T>(
        &self,
        key: &'static str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, MetadataError> {
        let text = self.text(key, expected)?;
        parse(text).ok_or_else(|| invalid(key, expected, text))
    }

    fn parse<T: FromStr>(&self, key: &'static str, expected: &'static str) -> Result<T, MetadataError> {
        self.named(key, expected, |text| text.parse().ok())
    }

    fn finite(&self, key: &'static str) -> Result<f32, MetadataError> {
        self.named(key, "a finite number", |text| text.parse().ok().filter(|v: &f32| v.is_finite()))
    }

    fn extent(&self, key: &'static str) -> Result<usize, MetadataError> {
        self.named(key, "an integer from 1 to 65536", |text| text.parse().ok().filter(|v| (1..=MAX_EXTENT).contains(v)))
    }
}

fn invalid(key: &'static str, expected: &str, found: &str) -> MetadataError {
    MetadataError::Invalid { key, expected: expected.to_owned(), found: excerpt(found) }
}
