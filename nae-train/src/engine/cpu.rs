//! The engine behind burn's tensors: processes the shards of a batch in parallel.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use nae_simd::{Planes, Size, Workspace};

use super::chain::ShardChain;
use super::network::{BothGradients, CpuAutoencoder};
use super::parameters::{WeightGradients, register};
use crate::arch::{Autoencoder, LatentSpace};
use crate::sample::{ChainEnd, EnergyGradient, FrozenEnergy, Langevin, NoiseSource, Recovery};
use crate::shard::{self, SHARD};

/// Computes energies and gradients for one state of an autoencoder.
pub struct CpuEngine {
    network: CpuAutoencoder,
    /// The autoencoder whose latents and images chains use; `None` for the network itself.
    manifold: Option<CpuAutoencoder>,
    workspace: Workspace,
    latent_space: LatentSpace,
    device: Device,
}

/// Converts a batch to shards.
pub(super) fn shards(workspace: &Workspace, input: Tensor<4>) -> Vec<Planes> {
    let [_, c, h, w] = input.dims();
    let values = input.into_data().try_into_vec::<f32>().expect("images and latents are float");
    let size = Size { h, w, c };
    let shard = |values: &[f32]| Planes::from_channels_first(workspace, values.len() / size.len(), size, values);
    values.chunks(SHARD * size.len()).map(shard).collect()
}

impl CpuEngine {
    /// Lays out the weights of `model` for images of `shape` (channels, rows, columns); results are tensors on
    /// `device`. The engine must [support](super::supports) the model's energy.
    pub fn new(model: &Autoencoder, shape: [usize; 3], device: &Device) -> Self {
        Self::in_workspace(&Workspace::default(), model, shape, device)
    }

    /// Same as [`new`](Self::new), with memory that outlives the engine: training makes a new engine after every
    /// update.
    pub(super) fn in_workspace(workspace: &Workspace, model: &Autoencoder, shape: [usize; 3], device: &Device) -> Self {
        Self {
            network: CpuAutoencoder::new(model, shape),
            manifold: None,
            workspace: workspace.clone(),
            latent_space: model.latent_space(),
            device: device.clone(),
        }
    }

    /// Returns the same energies for chains on the manifold of `manifold`, if given: an autoencoder for the same images
    /// and with the same latent space, whose D_z may be another.
    #[must_use]
    pub fn on_manifold_of(self, manifold: Option<&Autoencoder>, shape: [usize; 3]) -> Self {
        Self { manifold: manifold.map(|manifold| CpuAutoencoder::new(manifold, shape)), ..self }
    }

    fn manifold(&self) -> &CpuAutoencoder {
        self.manifold.as_ref().unwrap_or(&self.network)
    }

    fn shards(&self, batch: Tensor<4>) -> Vec<Planes> {
        shards(&self.workspace, batch)
    }

    fn map(&self, input: Tensor<4>, f: impl Fn(&Planes) -> Planes + Sync) -> Tensor<4> {
        self.gradient(input, |planes| (Vec::new(), f(planes))).gradient
    }

    fn gradient(&self, input: Tensor<4>, f: impl Fn(&Planes) -> (Vec<f32>, Planes) + Sync) -> EnergyGradient {
        let n = input.dims()[0];
        self.each(n, self.shards(input), |shard| f(&shard))
    }

    /// Computes `f` for a batch and the chains' starts, for one shard of both at a time.
    fn recovered(
        &self,
        input: Tensor<4>,
        Recovery { latents, weights }: &Recovery,
        f: impl Fn(&Planes, &Planes, &[f32]) -> (Vec<f32>, Planes) + Sync,
    ) -> EnergyGradient {
        let started = self.shards(latents.clone()).into_iter().zip(weights.chunks(SHARD));
        let n = input.dims()[0];
        let shards = self.shards(input).into_iter().zip(started).collect();
        self.each(n, shards, |(shard, (latents, weights))| f(&shard, &latents, weights))
    }

    /// Computes `f` for every shard of `n` samples, and joins the results.
    fn each<S: Send>(&self, n: usize, shards: Vec<S>, f: impl Fn(S) -> (Vec<f32>, Planes) + Sync) -> EnergyGradient {
        let parts = shard::map(shards, |shard| {
            let (energies, output) = f(shard);
            (energies, output.to_channels_first(), output.size)
        });
        let Size { h, w, c } = parts.first().map_or(Size::default(), |part| part.2);
        let (mut energies, mut values) = (Vec::with_capacity(n), Vec::with_capacity(n * c * h * w));
        for (part_energies, part, _) in parts {
            energies.extend(part_energies);
            values.extend(part);
        }
        let count = energies.len();
        EnergyGradient {
            energy: Tensor::from_data(TensorData::new(energies, [count]), &self.device),
            gradient: Tensor::from_data(TensorData::new(values, [n, c, h, w]), &self.device),
        }
    }

    /// Runs a chain in `space` with `f`, the energies and gradients of a shard. Every shard runs independently from its
    /// start to its end, so no thread waits for another within the chain.
    fn chain(
        &self,
        chain: &Langevin,
        space: LatentSpace,
        start: Tensor<4>,
        temperature: f32,
        noise: &mut NoiseSource,
        f: impl Fn(&Planes) -> (Vec<f32>, Planes) + Sync,
    ) -> ChainEnd {
        let shape = start.dims();
        let noise = noise.chain();
        let by_shard = ShardChain { chain, temperature, space, noise: &noise };
        let parts =
            shard::map(self.shards(start).into_iter().enumerate().collect(), |(index, start): (usize, Planes)| {
                let (state, taken) = by_shard.run(start, index * SHARD, &f);
                (state.to_channels_first(), taken)
            });
        let (values, taken): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let state = Tensor::from_data(TensorData::new(values.concat(), shape), &self.device);
        let taken: Option<usize> = taken.into_iter().sum();
        let acceptance = taken.and_then(|taken| chain.acceptance(taken, shape[0]));
        ChainEnd { state, acceptance }
    }

    /// The energies of images `x` `[N, C, H, W]`, one for each. C, H and W must be those that were given to
    /// [`new`](Self::new), here and in the other functions.
    pub fn energies(&self, x: Tensor<4>) -> Vec<f32> {
        shard::map(self.shards(x), |x| self.network.energies(&x)).concat()
    }

    /// Returns the energies of images `x` `[N, C, H, W]`, and the gradient of Σ coefficient(Eᵢ)·Eᵢ with respect to the
    /// weights, with constant coefficients. A mean over the batch has its factor 1/N in `coefficient`.
    pub fn weights(&self, x: Tensor<4>, coefficient: impl Fn(f32) -> f32 + Sync) -> (Vec<f32>, WeightGradients) {
        self.gathered(shard::map(self.shards(x), |x| self.network.weights(&x, &x, &coefficient)))
    }

    /// Same as [`weights`](Self::weights), but compares the reconstruction of `input` with `target`, both `[N, C, H, W]` of
    /// the same dimensions.
    pub fn weights_towards(
        &self,
        input: Tensor<4>,
        target: Tensor<4>,
        coefficient: impl Fn(f32) -> f32 + Sync,
    ) -> (Vec<f32>, WeightGradients) {
        let pairs = self.shards(input).into_iter().zip(self.shards(target)).collect();
        self.gathered(shard::map(pairs, |(input, target): (Planes, Planes)| {
            self.network.weights(&input, &target, &coefficient)
        }))
    }

    fn gathered(&self, parts: Vec<(Vec<f32>, BothGradients)>) -> (Vec<f32>, WeightGradients) {
        let (energies, gradients): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (energies.concat(), self.network.summed(&self.workspace, gradients))
    }

    /// Converts gradients to the form that burn's optimizers use.
    pub fn register(&self, gradients: WeightGradients) -> GradientsParams {
        sweep(&self.device);
        let mut params = GradientsParams::new();
        register(gradients, &mut params, &self.device);
        params
    }
}

/// Makes burn release the weights of past updates. burn keeps a node for every tracked tensor, and only checks which of
/// them are still in use when it differentiates. If gradients come from this engine, burn never does, and each update
/// would leak some twenty kilobytes.
fn sweep(device: &Device) {
    Tensor::<1>::zeros([1], &device.clone().autodiff()).require_grad().mul_scalar(1.0).backward();
}

/// Adds `part` to `total`, which must have the same parameters in the same order.
pub(crate) fn add(total: &mut WeightGradients, part: WeightGradients) {
    for ((_, _, sum), (_, _, values)) in total.iter_mut().zip(part) {
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += value;
        }
    }
}

impl FrozenEnergy for CpuEngine {
    fn latent_space(&self) -> LatentSpace {
        self.latent_space
    }

    fn encode(&self, x: Tensor<4>) -> Tensor<4> {
        self.map(x, |x| self.manifold().encode(x))
    }

    fn decode(&self, z: Tensor<4>) -> Tensor<4> {
        self.map(z, |z| self.manifold().decode(z))
    }

    fn visible(&self, x: Tensor<4>) -> EnergyGradient {
        self.gradient(x, |x| self.network.visible(x))
    }

    fn latent(&self, z: Tensor<4>) -> EnergyGradient {
        self.gradient(z, |z| self.network.latent(self.manifold(), z))
    }

    fn recovery(&self, x: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.recovered(x, recovery, |x, latents, weights| self.manifold().recovery(x, latents, weights))
    }

    fn latent_recovery(&self, z: Tensor<4>, recovery: &Recovery) -> EnergyGradient {
        self.recovered(z, recovery, |z, latents, weights| self.manifold().latent_recovery(z, latents, weights))
    }

    fn visible_chain(&self, chain: &Langevin, start: Tensor<4>, temperature: f32, noise: &mut NoiseSource) -> ChainEnd {
        self.chain(chain, LatentSpace::Euclidean, start, temperature, noise, |x| self.network.visible(x))
    }

    fn latent_chain(&self, chain: &Langevin, start: Tensor<4>, temperature: f32, noise: &mut NoiseSource) -> ChainEnd {
        self.chain(chain, self.latent_space, start, temperature, noise, |z| self.network.latent(self.manifold(), z))
    }
}
