export class Viewer { constructor() {} paint() {} }
