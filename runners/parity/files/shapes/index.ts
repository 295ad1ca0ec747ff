import { square } from "./square";

export default (side: number) => square(side);
