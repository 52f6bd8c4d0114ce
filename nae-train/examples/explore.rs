//! x
use nae_train::{config::preset, data::{digits, Split, outliers}, train::{self, observer::*, stopping::Look, Stream}, eval::{metrics::auroc, scoring::energies}, arch::Autoencoder};
use burn::tensor::Device;
use std::time::Instant;
struct P { t: Instant, split: Split, chim: nae_train::data::ImageSet, half: nae_train::data::ImageSet, device: Device }
impl P { fn eval(&self, m: &Autoencoder) { let n = energies(m, &self.split.test, &self.device);
  let r = |s| auroc(&n, &energies(m, s, &self.device)).unwrap();
  println!("      [test] held {:.3} chimera {:.3} half {:.3}", r(&self.split.held_out), r(&self.chim), r(&self.half)); } }
impl Observer for P {
    fn begin(&mut self, p: Phase, n: usize) { println!("{p:?} {n} at {:.1}s", self.t.elapsed().as_secs_f64()); }
    fn progress(&mut self, p: &Progress) { if let Progress::Pretraining{epoch, energy} = p { if epoch % 20 == 0 { println!("{epoch} {energy:.5} {:.1}s", self.t.elapsed().as_secs_f64()); } } }
    fn look(&mut self, l: &Look) { println!("{} val {:.5} sel {:.4} pos {:.5} neg {:.5} {:.1}s", l.update, l.validation_energy, l.selection_auroc, l.positive_energy.unwrap(), l.negative_energy.unwrap(), self.t.elapsed().as_secs_f64()); }
    fn checkpoint(&mut self, m: &Autoencoder) { self.eval(m); }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let config = preset::load(&a[1]).unwrap();
    let seed: u64 = a[2].parse().unwrap();
    let device = Device::flex();
    let images = digits::load().unwrap();
    let split = Split::new(&images, config.held_out(), config.split(), Stream::Split.of(seed).rng());
    println!("train {} val {} cal {} test {} out {}", split.train.len(), split.validation.len(), split.calibration.len(), split.test.len(), split.held_out.len());
    let mut p = P { t: Instant::now(), chim: outliers::chimeras(&split.test), half: outliers::halves(&split.test), split: split.clone(), device: device.clone() };
    let o = train::train(&config, &split, seed, &device, &mut p, &std::sync::atomic::AtomicBool::new(false));
    println!("kept {} {:?}", o.kept_update, o.ending);
    p.eval(&o.autoencoder); p.eval(&o.nae);
}
