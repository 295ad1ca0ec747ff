export const modern = () => "modern";
