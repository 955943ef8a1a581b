#pragma once

#include <string_view>
#include <utility>
#include <vector>

/// What exporters write an operator out as: a tree of operators over x and over constants of the model.
///   x() * read_once(sigmoid(x()))
namespace tsq::passes::expressions {

struct Expression {
  enum class Kind {
    X,           ///< any value, the same one wherever it stands
    Number,      ///< a constant number of the model, by a name
    Vector,      ///< a constant vector of the model, by a name
    Sum,         ///< of two operands, or of one and a number, in either order
    Difference,  ///< of two operands
    Product,     ///< of two operands in either order, or of one and a number to its right
    Quotient,    ///< of two operands, or of one and a number
    Factors,     ///< one product of all operands and a number, multiplied and divided in whatever order
    Sigmoid,     ///< module or function
    Clamp,       ///< between two numbers, however spelt
    Erf,
    Sqrt,
    Square,   ///< the second power, or a product of a value with itself
    RowMean,  ///< over the last dimension, which stays as one of size one
  };

  Kind kind{Kind::X};
  std::vector<Expression> operands{};
  std::vector<double> numbers{};
  std::string_view name{};   ///< of a constant of the model
  bool is_read_once{false};  ///< nobody else may read the value
};

inline Expression x() { return {}; }
inline Expression number(std::string_view name) { return {.kind = Expression::Kind::Number, .name = name}; }
inline Expression vector(std::string_view name) { return {.kind = Expression::Kind::Vector, .name = name}; }

inline Expression operator+(Expression a, Expression b) {
  return {.kind = Expression::Kind::Sum, .operands = {std::move(a), std::move(b)}};
}
inline Expression operator+(Expression a, double number) {
  return {.kind = Expression::Kind::Sum, .operands = {std::move(a)}, .numbers = {number}};
}
inline Expression operator-(Expression a, Expression b) {
  return {.kind = Expression::Kind::Difference, .operands = {std::move(a), std::move(b)}};
}
inline Expression operator*(Expression a, Expression b) {
  return {.kind = Expression::Kind::Product, .operands = {std::move(a), std::move(b)}};
}
inline Expression operator*(Expression a, double number) {
  return {.kind = Expression::Kind::Product, .operands = {std::move(a)}, .numbers = {number}};
}
inline Expression operator/(Expression a, Expression b) {
  return {.kind = Expression::Kind::Quotient, .operands = {std::move(a), std::move(b)}};
}
inline Expression operator/(Expression a, double number) {
  return {.kind = Expression::Kind::Quotient, .operands = {std::move(a)}, .numbers = {number}};
}

inline Expression factors(double number, std::vector<Expression> operands) {
  return {.kind = Expression::Kind::Factors, .operands = std::move(operands), .numbers = {number}};
}
inline Expression sigmoid(Expression a) {
  return {.kind = Expression::Kind::Sigmoid, .operands = {std::move(a)}};
}
inline Expression clamp(Expression a, double lowest, double highest) {
  return {.kind = Expression::Kind::Clamp, .operands = {std::move(a)}, .numbers = {lowest, highest}};
}
inline Expression erf(Expression a) { return {.kind = Expression::Kind::Erf, .operands = {std::move(a)}}; }
inline Expression sqrt(Expression a) { return {.kind = Expression::Kind::Sqrt, .operands = {std::move(a)}}; }
inline Expression square(Expression a) {
  return {.kind = Expression::Kind::Square, .operands = {std::move(a)}};
}
inline Expression row_mean(Expression a) {
  return {.kind = Expression::Kind::RowMean, .operands = {std::move(a)}};
}

/// Where nothing but the rest of the expression may read a value.
inline Expression read_once(Expression a) {
  a.is_read_once = true;
  return a;
}

}  // namespace tsq::passes::expressions
