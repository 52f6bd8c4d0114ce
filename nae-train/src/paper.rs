//! Where each equation, table row and algorithm line of the paper is, and the test that proves it.
//!
//! Yoon, Noh and Park, "Autoencoding Under Normalization Constraints", ICML 2021. Equations are numbered as in the
//! paper's compiled source. Tests are named by their file under `nae-train/` and their function; a test of this page
//! looks that they exist. Where the paper's text, its tables and the authors' code disagree, the last table says what
//! is done here.
//!
//! # Equations
//!
//! | | what | item | test |
//! |---|---|---|---|
//! | 1, 2 | an autoencoder's loss and its gradient | [`autoencoder::loss`](crate::methods::autoencoder::loss) | `src/methods/nae.rs` `both_engines_make_the_same_updates` |
//! | 3, 9 | reconstruction error, the energy: squared L2, L1, SSIM | [`energy`](crate::energy) | `tests/method/energies.rs` `values_are_nae_cores`, `gradients_are_those_of_the_reference` |
//! | 4, 10 | p(x) ∝ exp(−E(x)/T) | [`NormalizedAutoencoder`](crate::methods::nae::NormalizedAutoencoder) | `tests/method/langevin_density.rs` `adjusted_chains_sample_a_mixture_at_both_temperatures` |
//! | 5 | Ω, in two dimensions | [`GridDensity`](crate::density::GridDensity) | `src/density/grid.rs` `omega_of_a_quadratic_energy` |
//! | 6, 7, 11, 12 | the gradient of the negative log-likelihood | [`nae::loss`](crate::methods::nae::loss) | `tests/method/likelihood_gradient.rs` `equation_12_is_the_gradient_of_the_integrated_likelihood` |
//! | 8 | Langevin Monte Carlo among images | [`Langevin`](crate::sample::Langevin) | `src/sample/langevin.rs` `a_quadratic_energy_gives_the_closed_form_variance`; `tests/method/langevin_density.rs` `the_bias_of_a_gaussian_is_the_closed_forms` |
//! | 13 | the decoder's manifold | [`Autoencoder::decode`](crate::arch::Autoencoder::decode) | `tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | 14, 15 | on-manifold density and energy H(z) | [`on_manifold_energy`](crate::energy::on_manifold_energy) | `tests/method/architectures.rs` `input_gradients_of_every_architecture_are_finite_differences` |
//! | 16 | the latent chain | [`NegativeSampler`](crate::sample::NegativeSampler) | `tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | 17–20 | the linear NAE is a Gaussian | – | `tests/method/linear_nae.rs` `the_sampled_gradient_of_log_omega_is_the_closed_form`, `trained_by_samples_the_model_has_the_datas_covariance` |
//!
//! # Section 4.1: starts of the chains
//!
//! | what | item | test |
//! |---|---|---|
//! | CD-k | [`Start::Data`](crate::sample::Start::Data) | `tests/method/sampler_starts.rs` `contrastive_divergence_starts_at_the_data` |
//! | PCD | [`Start::Persistent`](crate::sample::Start::Persistent) | `tests/method/sampler_starts.rs` `persistent_chains_go_on_where_they_were` |
//! | PCD with restart | the same with `restart` | `tests/method/sampler_starts.rs` `a_share_of_persistent_chains_begins_anew` |
//! | noise, with the replay buffer that the authors' code calls PCD | [`Start::Noise`](crate::sample::Start::Noise) | `tests/method/sampler_starts.rs` `noise_fills_the_box_of_the_chain`, `a_replay_buffer_of_images_gives_earlier_ends` |
//! | on-manifold initialisation | [`Start::OnManifold`](crate::sample::Start::OnManifold) | `tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | perturbed latents of data (MPDR, a later paper) | [`Start::PerturbedData`](crate::sample::Start::PerturbedData) | `tests/method/sampler_starts.rs` `perturbed_data_is_near_the_datas_latents` |
//!
//! # Section 5.1: technicalities
//!
//! | what | item | test |
//! |---|---|---|
//! | pre-training as an autoencoder | [`Trainer::train`](crate::train::Trainer::train) | `tests/program/cli.rs` `a_run_leaves_a_model_a_report_and_a_folder_to_export_from` |
//! | ℝ^D and the unit sphere; projection | [`LatentSpace`](crate::arch::LatentSpace) | `tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | q₀(z): standard normal, uniform on the sphere | [`NoiseSource::latents`](crate::sample::NoiseSource::latents) | `src/sample/noise.rs` `latents_of_the_plane_are_standard_normal`, `latents_of_the_sphere_are_uniform` |
//! | ‖z‖² added to the loss | [`Regularization::latent_norm`](crate::methods::nae::Regularization::latent_norm) | `src/methods/nae.rs` `the_latent_norm_is_a_mean_over_both_batches` |
//! | α·mean E(x′)², γ here | [`Regularization::negative_energy`](crate::methods::nae::Regularization::negative_energy) | `src/methods/nae.rs` `both_engines_make_the_same_updates` |
//!
//! # Section 5.2: two dimensions
//!
//! | what | item | test |
//! |---|---|---|
//! | 8 Gaussians | [`Mixture::eight_gaussians`](crate::density::Mixture::eight_gaussians) | `src/density/mixture.rs` `the_ring_is_the_papers`; `src/density/grid.rs` `the_eight_gaussians_are_normalised` |
//! | densities on [−4, 4]² and their distances | [`GridDensity`](crate::density::GridDensity) | `src/density/grid.rs` `distances_between_gaussians` |
//! | the experiment | [`gaussians8`](crate::experiments::gaussians8) | `src/experiments/gaussians8/settings.rs` `the_papers_settings_are_valid` |
//! | tables of AUROC on MNIST: hold-out, other data, pre-training, sampling parameters, D_z | [`detection`](crate::experiments::detection) | `src/experiments/detection/settings.rs` `every_experiment_can_be_made_at_every_scale`; `tests/program/reproduce.rs` `held_out_digits_give_a_table_beside_the_papers_and_go_on_where_they_were` |
//!
//! # Figures
//!
//! | what | item | test |
//! |---|---|---|
//! | sampling with a randomly initialised NAE | [`random_init`](crate::experiments::pictures::random_init) | `tests/program/pictures.rs` `on_manifold_starts_have_lower_energies_than_data_in_a_fresh_model` |
//! | samples during training; reconstructions of a digit held out | [`along_training`](crate::experiments::pictures::along_training) | `tests/program/pictures.rs` `training_leaves_samples_and_reconstructions` |
//! | reconstruction error against D_z | [`latent_dim`](crate::experiments::pictures::latent_dim) | `tests/program/pictures.rs` `reconstruction_errors_have_a_row_for_each_latent_dimension` |
//! | a bi-modal distribution | [`bimodal`](crate::experiments::pictures::bimodal) | `tests/program/pictures.rs` `two_clusters_are_drawn_under_both_models` |
//!
//! # Appendix: data sets
//!
//! | what | item | test |
//! |---|---|---|
//! | HalfMNIST, ChimeraMNIST | [`outliers`](nae_data::outliers) | `src/data/outliers.rs` `halves_alternate`, `chimeras_join_different_classes` |
//! | ConstantGray, Noise | [`outliers`](nae_data::outliers) | `tests/program/cli.rs` `a_run_leaves_a_model_a_report_and_a_folder_to_export_from` |
//! | MNIST, FashionMNIST | [`Source`](nae_data::Source), [`idx`](nae_data::idx) | `src/data/idx.rs` `images_and_labels_plain_and_gzipped`; `tests/program/cli.rs` `data_in_files_is_found_named_and_recorded` |
//! | CIFAR-10 | [`cifar`](nae_data::cifar) | `src/data/cifar.rs` `planes_and_labels_come_in_the_order_of_the_files` |
//! | CIFAR-10 from images; the other sets, as images or arrays | [`Source`](nae_data::Source), [`own`](nae_data::own) | `tests/program/reproduce.rs` `cells_and_sets_without_data_are_said_and_left_out` |
//! | crops, padding, inverted images | [`ImageForm`](nae_data::form::ImageForm) | `tests/program/presets.rs` `transforms_are_the_same_in_training_and_in_scoring` |
//! | flips, dequantisation | [`Augmentation`](nae_data::augmentation::Augmentation) | `src/data/augmentation.rs` `images_are_mirrored_half_of_the_time`, `bytes_stay_within_their_256th` |
//! | the presets | [`PRESETS`](crate::config::preset::PRESETS) | `tests/program/presets.rs` `every_preset_of_the_paper_trains_on_data_of_its_form` |
//!
//! # Appendix: network architectures (table of architectures)
//!
//! | row | item | test |
//! |---|---|---|
//! | FCRes2 | [`fc_res2`](crate::arch::fc_res::fc_res2) | `src/arch/fc_res.rs` `parameters_as_counted_by_hand` |
//! | Conv28 | [`conv28`](crate::arch::conv28::conv28) | `src/arch/conv28.rs` `parameters_as_counted_by_hand` |
//! | Conv32 | [`conv32`](crate::arch::conv32::conv32) | `src/arch/conv32.rs` `parameters_as_counted_by_hand` |
//! | Conv32Big | [`conv32_big`](crate::arch::conv32_big::conv32_big) | `src/arch/conv32_big.rs` `parameters_as_counted_by_hand`, `every_weight_of_the_encoder_is_normalised` |
//! | Conv64 | [`conv64`](crate::arch::conv64::conv64) | `src/arch/conv64.rs` `parameters_as_counted_by_hand` |
//! | the code's CIFAR-10 pair | [`igebm32`](crate::arch::igebm::igebm32) | `src/arch/igebm.rs` `parameters_as_counted_by_hand` |
//! | FCRes, Res, ResUp, ResAtt | [`blocks`](crate::arch::blocks) | `src/arch/blocks.rs` `shapes_and_parameters_as_in_the_paper` |
//! | Bilinear, Nearest | [`upsample`](crate::arch::upsample) | `src/arch/upsample.rs` `corners_stay_and_the_middle_is_the_mean`, `nearest_repeats_pixels` |
//! | spectral normalisation | [`spectral`](crate::arch::spectral) | `src/arch/spectral.rs` `steps_approach_the_largest_singular_value_from_below` |
//! | all, with their gradients | [`LayerSpec`](crate::arch::LayerSpec) | `tests/method/architectures.rs` `input_gradients_of_every_layer_are_finite_differences` |
//!
//! # Appendix: NAE implementation (table of sampling parameters)
//!
//! | row | key of a preset's `[sampler]` | test |
//! |---|---|---|
//! | latent space | `latent_space` of `[architecture]` | `src/config/architecture.rs` `every_kind_is_read_and_sizes_left_out_are_the_papers` |
//! | λ_z, σ_z, τ_z | `latent_chain = { step_size, noise, steps }` | `src/sample/langevin.rs` `either_of_step_and_noise_follows_from_the_other` |
//! | replay buffer, 10,000 at 95% | `start.on_manifold.replay_buffer = { size, ratio }` | `src/sample/replay_buffer.rs` `the_oldest_leaves_first`, `the_ratio_is_kept` |
//! | λ_x, σ_x, τ_x | `visible_chain = { step_size, noise, steps }` | `src/sample/langevin.rs` `a_quadratic_energy_gives_the_closed_form_variance` |
//! | annealing of σ_x | `annealing = "harmonic"` | `src/sample/annealing.rs` `annealing_as_in_the_text_and_as_in_the_code` |
//! | gradient clipping | `gradient_clip`, `gradient_clip_by` | `src/sample/gradient_clip.rs` `each_kind_holds_what_it_says` |
//! | T = T_z, fixed or trainable | `temperature`, `training.temperature_learning_rate` | `src/methods/nae.rs` `temperature_learns_from_the_difference_of_energies` |
//! | Metropolis–Hastings | `metropolis = "exact"` | `tests/method/langevin_density.rs` `adjusted_chains_sample_a_mixture_at_both_temperatures`, `without_the_correction_the_histogram_is_off` |
//! | bounds | `bounds = { min, max, leaving }` | `tests/method/langevin_density.rs` `bounds_that_reject_cut_the_density_off` |
//! | new samples: a latent chain eight times as long | [`NewImages`](crate::sample::NewImages) | `tests/method/sampler_starts.rs` `new_images_take_a_latent_chain_eight_times_as_long` |
//! | L2 of the encoder's weights; of the decoder's | [`Regularization`](crate::methods::nae::Regularization) | `src/methods/nae.rs` `both_engines_make_the_same_updates` |
//! | a fixed decoder, rates of their own | [`Training`](crate::config::Training) | `src/methods/nae.rs` `a_fixed_decoder_stays_and_rates_differ` |
//! | the gradient's norm in pre-training (code) | [`Pretraining::max_gradient_norm`](crate::config::Pretraining::max_gradient_norm) | `src/methods/gradients.rs` `the_norm_is_that_of_all_parameters_together` |
//!
//! # Algorithm 1, line by line
//!
//! | line | item | test |
//! |---|---|---|
//! | u < 0.95: z₀ from the buffer, else from q₀ | [`ReplayBuffer::draw`](crate::sample::replay_buffer::ReplayBuffer::draw) | `src/sample/replay_buffer.rs` `the_ratio_is_kept` |
//! | latent chain, projected to the sphere | [`Langevin::run`](crate::sample::Langevin::run) | `tests/method/sampler_determinism.rs` `a_draw_is_a_function_of_the_seed_alone` |
//! | append z_τ to the buffer | [`ReplayBuffer::append`](crate::sample::replay_buffer::ReplayBuffer::append) | `src/sample/replay_buffer.rs` `the_oldest_leaves_first` |
//! | x₀ = f_d(z_τ) | [`NegativeSampler::sample`](crate::sample::NegativeSampler::sample) | `tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | main chain, rejection, annealing | [`Langevin::run`](crate::sample::Langevin::run) | `tests/method/langevin_density.rs` `adjusted_chains_sample_a_mixture_at_both_temperatures` |
//!
//! # Appendix: baselines
//!
//! | | item | test |
//! |---|---|---|
//! | AE | [`AutoencoderMethod`](crate::methods::autoencoder::AutoencoderMethod) | `tests/program/cli.rs` `every_method_trains_and_exports` |
//! | DAE, σ = 0.3 | [`Denoising`](crate::methods::autoencoder::Denoising) | `src/methods/autoencoder.rs` `a_denoiser_is_compared_with_the_data_without_noise` |
//! | VAE, by reconstruction and by likelihood | [`VariationalAutoencoder`](crate::methods::vae::VariationalAutoencoder) | `src/methods/vae.rs` `the_bound_is_a_bound` |
//! | WAE-MMD, RBF kernel, median heuristic | [`WaeMethod`](crate::methods::wae::WaeMethod), [`mmd_squared`](crate::methods::mmd::mmd_squared) | `src/methods/mmd.rs` `equal_samples_are_at_no_distance`, `two_points_each_by_hand` |
//! | IGEBM, Glow, PixelCNN++, DAGMM, VQ-VAE, GANomaly | not here yet; [`Method`](crate::methods::Method) and [`Model`](crate::methods::Model) are where they come in | – |
//!
//! # Where this crate differs from the paper's text or its code
//!
//! | | paper's text | authors' code | here |
//! |---|---|---|---|
//! | algorithm 1's updates | without z_{t−1}, x_{t−1}: a slip | with | with |
//! | the 8 Gaussians' √2/4 | covariance: a slip | standard deviation | standard deviation |
//! | Conv28's padding 1, last kernel 4 | gives no 28×28 | none, 3 | as the code |
//! | Conv64's 245 channels | a slip | – | 256 |
//! | Conv32Big's Res(128, 256, 256) | no projection on the skip | – | a 1×1 convolution |
//! | x₀ outside of the bounds | – | clamped | clamped |
//! | annealing | σ/(1 + t) | σ, σ, σ/2, σ/3, … | the text; `harmonic_delayed` is the code |
//! | Metropolis–Hastings at T ≠ 1 | – | detailed balance at T = 1 only | the Langevin proposal's ratio; `metropolis = "code"` is the code |
//! | the loss | divided by T | not divided | not divided |
//! | regulariser of energies in CD and PCD | negative samples | negative samples and data | both weights are settings |
//! | ‖z‖² | squared norm | divided by D | squared norm |
//! | PCD with restart | chains restarted with probability 5% | replay buffer of 10,000 at 95% | the text; `start.noise.replay_buffer` is the code |
//! | MMD | – | unbiased estimate | the biased one, zero on equal samples |
//! | VAE's reconstruction error | – | at a drawn latent | at the posterior's mean |

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Every `file` followed by test names on a line of this page.
    #[test]
    fn every_test_named_here_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(root.join("src/paper.rs")).expect("this file");
        let mut found = 0;
        for line in page.lines().filter(|line| line.starts_with("//! |")) {
            let mut source = String::new();
            for quoted in line.split('`').skip(1).step_by(2) {
                if quoted.ends_with(".rs") {
                    source = std::fs::read_to_string(root.join(quoted)).expect(quoted);
                } else if !source.is_empty() {
                    assert!(source.contains(&format!("fn {quoted}()")), "{quoted}: {line}");
                    found += 1;
                }
            }
        }
        assert!(found > 50, "{found} tests found");
    }
}
