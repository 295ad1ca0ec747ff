// Enums, namespaces, decorators, parameter properties, satisfies and using.
enum Color {
  Red = 1,
  Green,
}
namespace Space {
  export const inside = Color.Green;
}
abstract class Base<T> {
  constructor(protected readonly value: T) {}
  abstract show(): string;
}
class Shown extends Base<number> {
  show = () => `value ${this.value}`;
}
const settings = { depth: 2 } satisfies Record<string, number>;
console.log(Color[2], Space.inside, new Shown(5).show(), settings.depth as const);
