//! Activations as ONNX operators: their names and attributes, in one table for reading and writing.

use nae_core::layer::Activation;

/// The operator of an activation; `None` for the identity.
pub(crate) const fn operator(activation: Activation) -> Option<&'static str> {
    Some(match activation {
        Activation::Relu => "Relu",
        Activation::LeakyRelu { .. } => "LeakyRelu",
        Activation::Elu { .. } => "Elu",
        Activation::Sigmoid => "Sigmoid",
        Activation::Tanh => "Tanh",
        _ => return None,
    })
}

/// The attribute `alpha` of an activation, if it has one.
pub(crate) const fn alpha(activation: Activation) -> Option<f32> {
    match activation {
        Activation::LeakyRelu { slope: alpha } | Activation::Elu { alpha } => Some(alpha),
        _ => None,
    }
}

/// The activation of an operator, with the default of its attribute `alpha`.
pub(crate) const fn of(operator: &str) -> Option<Activation> {
    Some(match operator.as_bytes() {
        b"Relu" => Activation::Relu,
        b"LeakyRelu" => Activation::LeakyRelu { slope: 0.01 },
        b"Elu" => Activation::Elu { alpha: 1.0 },
        b"Sigmoid" => Activation::Sigmoid,
        b"Tanh" => Activation::Tanh,
        _ => return None,
    })
}

/// The same activation with this value of the attribute `alpha`.
pub(crate) const fn with_alpha(activation: Activation, alpha: f32) -> Activation {
    match activation {
        Activation::LeakyRelu { .. } => Activation::LeakyRelu { slope: alpha },
        Activation::Elu { .. } => Activation::Elu { alpha },
        other => other,
    }
}
